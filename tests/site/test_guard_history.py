"""Numbers of earlier rounds lie beside the ledger, whole or not at all."""

import pytest

from fluoroscope.defences.guard import History
from fluoroscope.errors import BadInput
from fluoroscope.site.guard_history import history_path, read_history, write_history


def test_what_is_written_is_read_and_nothing_is_an_empty_history(tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    assert read_history(ledger) == History()
    write_history(ledger, History())
    assert not history_path(ledger).exists()
    told = History().after({"isolation": 0.25, "images": 64.0})
    write_history(ledger, told)
    assert read_history(ledger) == told


def test_a_damaged_file_is_said_and_not_passed_over(tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    history_path(ledger).write_text("{")
    with pytest.raises(BadInput, match="delete it"):
        read_history(ledger)

"""findings.json: what is read, and what is said of a file that cannot be."""

import json

import pytest

from fluoroscope.errors import BadInput, FluoroscopeError
from fluoroscope.findings.pointer import pointer, resolve
from fluoroscope.findings.reading import read_findings
from fluoroscope.findings.writing import document_of
from tests.report.audits import as_format_1

REMOVED = object()


def broken(audit, tmp_path, at, value):
    """A folder with the audit's findings, of which one place was changed."""
    *way, last = at
    whole = json.loads((audit / "findings.json").read_text())
    here = whole
    for step in way:
        here = here[step]
    if value is REMOVED:
        del here[last]
    else:
        here[last] = value
    (tmp_path / "findings.json").write_text(json.dumps(whole))
    return tmp_path


def test_an_audit_is_read(audit):
    found = read_findings(audit)
    assert found.findings.cells[0].kind == "federation"
    assert found.timing.total == 321.0


def test_further_metrics_and_keys_are_welcome(audit, tmp_path):
    folder = broken(audit, tmp_path, ["cells", 0, "scores", "calibration_error"], {"value": 0.1, "unit": "none"})
    assert read_findings(folder).findings.cells[0].scores["calibration_error"].value == 0.1


def test_what_is_read_is_written_again_as_it_was(audit):
    found = read_findings(audit)
    assert document_of(found.findings) == found.document


def test_findings_of_format_1_are_read_and_written_as_they_were(audit, tmp_path):
    older = as_format_1(json.loads((audit / "findings.json").read_text()))
    (tmp_path / "findings.json").write_text(json.dumps(older))
    found = read_findings(tmp_path).findings
    assert found.format == 1
    assert found.verdicts[0].levels == ()
    assert document_of(found) == older


def test_findings_at_odds_are_not_made_into_a_document(audit):
    findings = read_findings(audit).findings
    lost = findings.model_copy(update={"cells": findings.cells[:1]})
    with pytest.raises(FluoroscopeError, match=r"not written: verdicts\.0\.text: numbers\.0\.pointer"):
        document_of(lost)


def test_timing_may_be_absent(audit, tmp_path):
    assert read_findings(broken(audit, tmp_path, ["seed"], 1)).timing is None


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (["title"], REMOVED, "title: Field required"),
        (["format"], 3, "format: this version reads formats 1 to 2, not 3"),
        (["verdicts", 0, "levels", 1, "defence"], "wall", "verdicts.0.levels.1.defence: 'wall'"),
        (["verdicts", 0, "levels", 1, "level"], "fine", "verdicts.0.levels.1.level"),
        (["verdicts", 0, "levels", 1, "why", "text"], "{9}", "verdicts.0.levels.1.why"),
        (["sizes", 0, "of"], "luck", "sizes.0.of"),
        (["format"], REMOVED, "format"),
        (["cells", 3, "kind"], "guess", "cells.3.kind"),
        (["cells", 3, "status"], "ok", "cells.3.status"),
        (["cells", 3, "scores", "rdlv", "value"], "high", "cells.3.scores.rdlv.value"),
        (["cells", 3, "defence"], "wall", "cells.3.defence: 'wall' is none of none"),
        (["cells", 3, "threat"], "ghost", "cells.3.threat: 'ghost'"),
        (["cells", 3, "id"], "federation-0", "cells: id 'federation-0' occurs twice"),
        (["cells", 0, "curves", "accuracy", "x"], [1], "cells.0.curves.accuracy: x, y, low and high differ"),
        (
            ["cells", 3, "scores", "rdlv", "higher_is_leakier"],
            False,
            "cells.3.scores.rdlv.higher_is_leakier: the metric",
        ),
        (["cells", 3, "attacked"], "a copy", "cells.3.attacked"),
        (["defences", 0, "label"], "no", "defences.0.label: the first is always 'none'"),
        (["verdicts", 0, "level"], "fine", "verdicts.0.level"),
        (["verdicts", 0, "stopped_by"], "wall", "verdicts.0.stopped_by"),
        (["recommendation", "defence"], "wall", "recommendation.defence"),
        (["verdicts", 0, "text", "numbers", 0, "pointer"], "/cells/999/x", "verdicts.0.text: numbers.0.pointer"),
        (["verdicts", 0, "text", "numbers", 0, "pointer"], "/title", "verdicts.0.text: numbers.0"),
        (["verdicts", 0, "text", "numbers", 0, "format"], ".0z", "String should match pattern"),
        (["verdicts", 0, "text", "text"], "{7}", "for its 3 numbers"),
        (["verdicts", 0, "text", "text"], "{0:.2f} {1} {2}", "for its 3 numbers"),
        (["verdicts", 0, "text", "text"], "{0", "cannot be filled in"),
        (["safe_to_say", 0, "numbers"], [], "safe_to_say.0"),
    ],
)
def test_the_file_and_the_key_are_named(audit, tmp_path, at, value, message):
    with pytest.raises(BadInput, match=r"findings\.json") as caught:
        read_findings(broken(audit, tmp_path, at, value))
    assert message in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"format": NaN}', b"[" * 100_000])
def test_damaged_files(tmp_path, content):
    (tmp_path / "findings.json").write_bytes(content)
    with pytest.raises(BadInput, match=r"findings\.json"):
        read_findings(tmp_path)


def test_a_missing_file(tmp_path):
    with pytest.raises(BadInput, match="fluoroscope audit"):
        read_findings(tmp_path / "nowhere")


def test_damaged_timing(audit, tmp_path):
    folder = broken(audit, tmp_path, ["seed"], 1)
    (folder / "timing.json").write_text('{"seconds": {"a": "long"}}')
    with pytest.raises(BadInput, match=r"timing.json: seconds.a"):
        read_findings(folder)


def test_pointers():
    document = {"a/b": [{"c~d": 5}]}
    assert pointer("a/b", 0, "c~d") == "/a~1b/0/c~0d"
    assert resolve(document, pointer("a/b", 0, "c~d")) == 5
    assert resolve(document, "") is document
    for wrong in ("/a/0", "/a~1b/1", "/a~1b/-1", "/a~1b/x", "a", "/a~1b/0/c~0d/0"):
        with pytest.raises(LookupError):
            resolve(document, wrong)


@pytest.mark.parametrize("how", ["200000000", ".3000000f", "c", "<99999999", "{}", "_^9999d", "n"])
def test_numbers_are_written_in_a_few_ways_alone(audit, tmp_path, how):
    folder = broken(audit, tmp_path, ["recommendation", "text"], {"text": "{0}", "numbers": [{"pointer": "/seed"}]})
    assert read_findings(folder)
    document = json.loads((folder / "findings.json").read_text())
    document["recommendation"]["text"]["numbers"][0]["format"] = how
    (folder / "findings.json").write_text(json.dumps(document))
    with pytest.raises(BadInput, match=r"recommendation.text.numbers.0.format"):
        read_findings(folder)


def test_half_a_character_is_no_text(audit, tmp_path):
    folder = broken(audit, tmp_path, ["title"], "x\ud800")
    with pytest.raises(BadInput, match="cannot be read as JSON"):
        read_findings(folder)


def test_findings_have_a_most(audit, tmp_path, monkeypatch):
    monkeypatch.setattr("fluoroscope.findings.reading.MOST_BYTES", 1000)
    with pytest.raises(BadInput, match="at most 1,000 are read"):
        read_findings(audit)

"""Pairs of checkpoints in folders, as updates by round and client."""

import pytest
import torch

from fluoroscope.errors import BadInput
from fluoroscope.integrations.pairs import PairedUpdates, open_updates
from fluoroscope.integrations.recorded import RecordedUpdates


def pair(place, value=1.0, kind="pt"):
    place.mkdir(parents=True)
    torch.save({"weight": torch.zeros(2)}, place / f"before.{kind}")
    torch.save({"weight": torch.full((2,), value)}, place / f"after.{kind}")


def test_rounds_are_the_numbers_above_the_clients(tmp_path):
    pair(tmp_path / "north")
    pair(tmp_path / "round-3" / "north", 3.0)
    pair(tmp_path / "rounds" / "0012" / "south")
    found = PairedUpdates(tmp_path)
    assert found.rounds() == [1, 3, 12]
    assert found.clients(3) == ["north"]
    before, after = found.load(3, "north")
    assert before["weight"].tolist() == [0.0, 0.0]
    assert after["weight"].tolist() == [3.0, 3.0]
    assert found.about(12, "south").training is None


def test_a_folder_of_client_numbers_is_no_folder_of_rounds(tmp_path):
    """The folder that was given is not looked at for a round, whatever its name."""
    pair(tmp_path / "run7" / "north")
    assert PairedUpdates(tmp_path / "run7").rounds() == [1]


def test_half_a_pair_and_two_of_a_kind_are_named(tmp_path):
    pair(tmp_path / "half" / "north")
    (tmp_path / "half/north/after.pt").unlink()
    with pytest.raises(BadInput, match=r"no after\.\*"):
        PairedUpdates(tmp_path / "half").rounds()
    pair(tmp_path / "twice" / "a" / "north")
    pair(tmp_path / "twice" / "b" / "north")
    with pytest.raises(BadInput, match="both of 'north' in round 1"):
        PairedUpdates(tmp_path / "twice").rounds()
    pair(tmp_path / "two" / "north")
    torch.save({}, tmp_path / "two/north/after.pth")
    with pytest.raises(BadInput, match=r"2 files after\.\*"):
        PairedUpdates(tmp_path / "two").load(1, "north")


def test_what_lies_in_a_folder_decides(tmp_path):
    with pytest.raises(BadInput, match="there is no folder"):
        open_updates(tmp_path / "nowhere")
    with pytest.raises(BadInput, match="holds no update"):
        open_updates(tmp_path)
    state = {"weight": torch.zeros(2)}
    RecordedUpdates(tmp_path / "recorded").write("north", 1, state, state)
    pair(tmp_path / "pairs" / "north")
    assert isinstance(open_updates(tmp_path / "recorded"), RecordedUpdates)
    assert isinstance(open_updates(tmp_path / "pairs"), PairedUpdates)

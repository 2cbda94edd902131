"""Updates on disk: what was written is read, damage is noticed, and no name leads out of the folder."""

import json
import os

import pytest
import torch

import fluoroscope as fl
from fluoroscope.errors import BadInput
from fluoroscope.integrations.recorded import RecordedUpdates
from fluoroscope.models import Architecture
from fluoroscope.types import PrivacyClaim

BEFORE = {"b": torch.arange(3.0), "a": torch.ones(2, 2, dtype=torch.float16), "n": torch.tensor(3)}
AFTER = {name: value + 1 for name, value in BEFORE.items()}


def equal(one, other) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def test_updates_are_their_owners_alone(tmp_path):
    tmp_path.chmod(0o755)
    before = os.umask(0)
    try:
        RecordedUpdates(tmp_path / "updates").write("north", 2, BEFORE, AFTER)
    finally:
        os.umask(before)
    paths = [tmp_path / "updates", *(tmp_path / "updates").rglob("*")]
    assert len(paths) > 6
    assert not [path for path in paths if path.stat().st_mode & 0o077]


def test_what_was_written_is_read(tmp_path):
    updates = RecordedUpdates(tmp_path / "updates")
    training = fl.LocalTraining(fl.AdamW(1e-3), images=7, batch_size=4, epochs=2)
    claim = PrivacyClaim(2.0, 1e-5, "record", "DP-SGD")
    updates.write("north", 2, BEFORE, AFTER, training, Architecture("p3-cnn", 1, 4, 28), claim)
    before, after = updates.load(2, "north")
    assert equal(before, BEFORE)
    assert equal(after, AFTER)
    about = updates.about(2, "north")
    assert (about.training, about.claim) == (training, claim)
    assert about.network is not None
    assert about.network.network() == Architecture("p3-cnn", 1, 4, 28)
    assert (updates.rounds(), updates.clients(2)) == ([2], ["north"])


def test_a_live_module_and_unknown_training_are_left_out(tmp_path):
    updates = RecordedUpdates(tmp_path)
    own = fl.Network.of(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)), (1, 2, 2))
    updates.write("north", 1, BEFORE, AFTER, network=own)
    about = updates.about(1, "north")
    assert about.network is None
    assert about.training is None


def test_a_model_that_many_were_sent_is_kept_once(tmp_path):
    updates = RecordedUpdates(tmp_path)
    for client in ("north", "south", "west"):
        updates.write(client, 1, dict(reversed(BEFORE.items())), {"b": torch.rand(3)})
    assert len(list(tmp_path.glob("models/*"))) == 1
    assert updates.clients(1) == ["north", "south", "west"]


def test_the_same_update_twice_is_one_and_another_is_refused(tmp_path):
    updates = RecordedUpdates(tmp_path)
    for _ in range(2):
        updates.write("north", 1, BEFORE, AFTER)
    with pytest.raises(BadInput, match="folder of its own"):
        updates.write("north", 1, BEFORE, BEFORE)
    assert equal(updates.load(1, "north")[1], AFTER)


@pytest.mark.parametrize("name", ["../../out", "..", ".", "/etc", "a/b", ".hidden", "ein Haus", "%2e", "ü"])
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    updates = RecordedUpdates(tmp_path / "in")
    updates.write(name, 1, BEFORE, AFTER)
    assert updates.clients(1) == [name]
    assert equal(updates.load(1, name)[1], AFTER)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert len(list((tmp_path / "in/rounds/0001").iterdir())) == 1


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_a_name_that_is_none_is_refused(tmp_path, name):
    with pytest.raises(BadInput, match="1 to 200"):
        RecordedUpdates(tmp_path).write(name, 1, BEFORE, AFTER)


def test_damage_is_noticed(tmp_path):
    updates = RecordedUpdates(tmp_path)
    updates.write("north", 1, BEFORE, AFTER)
    file = next(tmp_path.glob("models/*"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(BadInput, match="damaged"):
        updates.load(1, "north")
    about = tmp_path / "rounds/0001/north/update.json"
    about.write_text(json.dumps({"client": "north"}))
    with pytest.raises(BadInput, match="damaged"):
        updates.about(1, "north")


def test_what_is_not_there_is_said(tmp_path):
    updates = RecordedUpdates(tmp_path)
    updates.write("north", 1, BEFORE, AFTER)
    with pytest.raises(BadInput, match="it has round 1: north"):
        updates.load(2, "north")


def test_a_stop_in_the_middle_leaves_nothing(tmp_path, monkeypatch):
    """As if the disk were full when the manifest is written."""
    updates = RecordedUpdates(tmp_path)

    def full(path, text):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("fluoroscope.integrations.recorded.write_text", full)
    with pytest.raises(OSError, match="No space"):
        updates.write("north", 1, BEFORE, AFTER)
    assert updates.rounds() == []
    assert list(tmp_path.glob("rounds/*/*")) == []

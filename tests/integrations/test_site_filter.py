"""What the filters of all frameworks share: a door opened once, sentences without paths, the site's own defence."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fluoroscope.defences import chain
from fluoroscope.defences.clip_and_noise import ClipAndNoise
from fluoroscope.defences.pruning import Pruning
from fluoroscope.errors import BadInput, Refused
from fluoroscope.integrations.site_filter import check_passes, defended, enter, opened, sentence
from fluoroscope.site.decision import Decision
from fluoroscope.site.ledger import read_ledger
from fluoroscope.site.subject import Subject
from fluoroscope.types import LocalTraining, Network, Sgd

MODULE = nn.Sequential(nn.Flatten(), nn.Linear(4, 2, bias=False))
BEFORE = {"1.weight": torch.zeros(2, 4)}
AFTER = {"1.weight": torch.arange(1.0, 9.0).view(2, 4)}


TRAINING = LocalTraining(Sgd(0.1), images=1, batch_size=1)


def site(tmp_path, *defences, training=TRAINING):
    subject = Subject(Network.of(MODULE, (1, 2, 2)), training, defence=chain(*defences))
    return SimpleNamespace(subject=subject, ledger=SimpleNamespace(path=tmp_path / "ledger.jsonl"))


def test_a_defence_changes_what_leaves(tmp_path):
    left = defended(site(tmp_path, Pruning(0.5)), BEFORE, AFTER, run="r", round=0)
    assert left["1.weight"].flatten().tolist() == [0, 0, 0, 0, 5, 6, 7, 8]


def test_the_same_update_gets_the_same_noise_and_another_round_another(tmp_path):
    control = site(tmp_path, ClipAndNoise(1.0, 0.5))
    first, again = (defended(control, BEFORE, AFTER, run="r", round=0)["1.weight"] for _ in range(2))
    other = defended(control, BEFORE, AFTER, run="r", round=1)["1.weight"]
    elsewhere = defended(site(tmp_path / "b", ClipAndNoise(1.0, 0.5)), BEFORE, AFTER, run="r", round=0)["1.weight"]
    assert first.equal(again)
    assert not first.equal(other)
    assert not first.equal(elsewhere), "each site has a secret of its own"


def test_without_a_defence_nothing_leaves(tmp_path):
    with pytest.raises(Refused, match="names no"):
        defended(site(tmp_path), BEFORE, AFTER, run="r", round=0)
    with pytest.raises(Refused, match=r"\[model\] and \[training\]"):
        defended(site(tmp_path, Pruning(0.5), training=None), BEFORE, AFTER, run="r", round=0)


def test_a_door_is_opened_once_and_a_broken_policy_is_tried_again(door, monkeypatch):
    assert opened("a.toml") is opened("a.toml")
    asked = []

    def broken(policy, ledger=None):
        asked.append(policy)
        raise BadInput(f"cannot read {policy}.")

    monkeypatch.setattr("fluoroscope.site.opening.open_site", broken)
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            opened("/home/site/b.toml")
        assert "/home" not in str(caught.value)
        assert caught.value.__context__ is None
    assert len(asked) == 2


def test_only_our_own_sentences_are_said():
    assert sentence(Refused("it carries no weights")) == "it carries no weights"
    assert "anna" not in sentence(BadInput("/data/anna.png is damaged."))
    assert "FileNotFoundError" in sentence(FileNotFoundError("/data/anna.png"))


def test_what_does_not_pass_is_refused_with_the_reasons():
    check_passes(Decision("send"))
    check_passes(Decision("warn", ("near.",)))
    with pytest.raises(Refused, match=r"^One\. Two$"):
        check_passes(Decision("withhold", ("One.", "Two.")))
    with pytest.raises(Refused, match="policy"):
        check_passes(Decision("withhold"))


def test_what_could_not_be_read_stands_in_the_ledger(tmp_path):
    """A real door: one line, of the kind of the problem alone."""
    policy = tmp_path / "appetite.toml"
    policy.write_text('[site]\nledger = "ledger.jsonl"\n')
    enter(Refused("patient-4711 in /data"), str(policy), None, "out", run="job", round=2)
    (entry,) = read_ledger(tmp_path / "ledger.jsonl")
    assert (entry.direction, entry.run, entry.round, entry.decision) == ("out", "job", 2, "withhold")
    assert entry.reasons == ("What came to the door could not be read (Refused), so nothing may pass.",)
    enter(Refused("no such policy"), str(tmp_path / "none.toml"), None, "out", run="job", round=2)  # no ledger to enter

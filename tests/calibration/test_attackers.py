"""Calibration against attackers whose worth is known: what a weak one misses, a strong one finds."""

import json
from dataclasses import dataclass, replace

import pytest
import torch

from fluoroscope.calibration import attackers as under_attack
from fluoroscope.calibration import calibrate as calibration
from fluoroscope.calibration.attackers import Attackers
from fluoroscope.calibration.calibrate import calibrate, check, open_bench, stage_for, without_defence
from fluoroscope.calibration.candidates import candidate, split_names
from fluoroscope.calibration.kept import Tried
from fluoroscope.calibration.points import Settings
from fluoroscope.calibration.stage import RecordedClient, SimulatedClients
from fluoroscope.calibration.target import Target
from fluoroscope.errors import BadInput, Misconfigured, Unsupported
from fluoroscope.scenarios.rehearsal import Effort
from tests.scenarios.plain_attacks import GivesUp, Prior, Reads

PLAN = """
rounds = 1
[data]
source = "phantom/chest"
size = 28
images = 200
[partition]
name = "counts"
train = [[1, 0], [8, 8]]
validation = 2
test = 20
auxiliary = 90
[model]
factory = "tests.scenarios.plain_attacks:Dense"
[training]
lr = 0.1
"""
SMALL, EFFORT = Target("leak", 0.05), Effort(victims=4)


@dataclass(frozen=True)
class Timid(Reads):
    """Reads what is exact, and has the prior as soon as there is any noise: rows are multiples of one image."""

    name: str = "timid"

    def run(self, observations, rng, on_iteration=None, checkpoint=None):
        exact = [torch.linalg.svdvals(each.update["1.weight"])[1:].max() < 1e-4 for each in observations]
        pairs = zip(exact, Reads().run(observations, rng), Prior().run(observations, rng), strict=True)
        return [read if clean else prior for clean, read, prior in pairs]


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """In this process: the attacks are our own."""
    monkeypatch.setattr(under_attack, "run_isolated", lambda attack, seen, rng, **how: attack.run(seen, rng))


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    (folder / "plan.toml").write_text(PLAN)
    return open_bench(folder / "plan.toml", folder / "out", lambda what: None)


def settings(*attacks, rehearsed=True, **more) -> Settings:
    named = {attack.name: attack for attack in attacks}
    return Settings(SMALL, Attackers(named, rehearsed, EFFORT), victims=16, precision=0.9, **more)


def searched(bench, how, name="percentile-gaussian", **given):
    stage = stage_for(bench, how)
    bare = without_defence(bench, stage, how)
    return bare, calibrate(bench, stage, candidate(name, {name: given}), bare, how, 0, lambda what: None)


def test_the_stronger_attacker_decides(bench):
    bare, found = searched(bench, settings(Timid(), Reads()))
    assert bare.leaks
    assert bare.worst.leak.low > 0.3
    _, timid = searched(bench, settings(Timid()))
    assert timid.least is not None
    assert found.least > 10 * timid.least
    unsafe = [point for point in found.tried if not point.safe]
    assert any(point.why_not == "reads reads it" for point in unsafe)


def test_a_weak_attack_alone_cannot_say_safe(bench, monkeypatch):
    """Named by hand, it decides the search; what it calls safe is then shown to all attackers."""
    monkeypatch.setattr(calibration, "candidates", lambda: {"reads": Reads()})
    _, found = searched(bench, settings(Timid(), rehearsed=False))
    assert found.trained[-1].safe
    assert not found.confirmed.safe
    assert found.confirmed.why_not == "reads reads it"
    assert found.chosen is None


def test_a_setting_that_was_lucky_is_refuted_on_other_victims(bench, monkeypatch):
    """Then neither it nor anything weaker is chosen, and the search goes on."""
    asked, on_others = [], calibration._Searched._on_others

    def unlucky(self, value):
        asked.append((value, self.stage))
        point = on_others(self, value)
        return point if len(asked) > 1 else replace(point, safe=False, why_not="reads reads it")

    monkeypatch.setattr(calibration._Searched, "_on_others", unlucky)
    how = settings(Reads())
    _, found = searched(bench, how)
    assert len(asked) == 2
    assert found.unread == asked[1][0] > asked[0][0]
    assert found.least == pytest.approx(2 * found.unread)
    assert found.chosen is not None
    assert {part.why_not for part in found.tried if part.parts[0][1]["noise_scale"] == asked[0][0]} == {
        "reads reads it"
    }
    fresh = stage_for(bench, replace(how, seed=1))
    patients = [victim.patients for victim in fresh.split.victims]
    assert patients != [victim.patients for victim in stage_for(bench, how).split.victims], "other victims"


def test_what_everybody_reads_with_its_margin_pushes_the_search_on(bench, monkeypatch):
    asked, everybody = [], calibration._Searched.everybody

    def unlucky(self, value):
        asked.append(value)
        point = everybody(self, value)
        return point if len(asked) > 1 else replace(point, safe=False, why_not="reads reads it")

    monkeypatch.setattr(calibration._Searched, "everybody", unlucky)
    _, found = searched(bench, settings(Reads()))
    assert len(asked) == 2
    assert found.least == asked[1] > asked[0]
    assert found.unread > asked[0], "nothing at or below a setting that was read"
    assert not next(point for point in found.tried if point.parts[0][1]["noise_scale"] == asked[0]).safe


def test_a_margin_of_one_is_none(bench):
    _, found = searched(bench, settings(Reads(), margin=1.0))
    assert found.least == found.unread


def test_an_attack_that_reads_nothing_has_nothing_to_calibrate(bench):
    how = settings(Prior(), GivesUp())
    assert not without_defence(bench, stage_for(bench, how), how).leaks


def test_where_all_give_up_nothing_was_tested(bench):
    _, found = searched(bench, settings(GivesUp()))
    (point,) = found.tried
    assert not point.safe
    assert point.why_not.startswith("not tested: no attack had anything to say (gives-up gave up")
    assert found.least is None


def test_a_search_goes_on_where_it_was(bench, monkeypatch):
    how = settings(Timid())
    _, first = searched(bench, how)
    kept = sorted((bench.out / "tried").glob("*.json"))
    kept[0].write_text(kept[0].read_text()[:40])  # as a kill inside a write of an older version left it
    measured = []

    def told(*what, **more):
        measured.append(what)
        return under_attack.measure(*what, **more)

    monkeypatch.setattr(calibration, "measure", told)
    _, again = searched(bench, how)
    assert again == first
    assert len(measured) <= 1, "the damaged one, if it was of this search"
    assert not list((bench.out / "tried").glob(".*.part"))


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"played": [{}], "rehearsed": {}}', '{"played": null}'])
def test_what_cannot_be_read_was_not_tried(tmp_path, content):
    (tmp_path / "key.json").write_text(content)
    assert Tried(tmp_path).load("key") is None
    assert Tried(tmp_path).load("other") is None


def test_a_number_that_json_cannot_hold_comes_back(tmp_path):
    from fluoroscope.calibration.measured import Measured
    from fluoroscope.scores.intervals import Interval
    from tests.calibration.test_target import QUIET

    nan = float("nan")
    Tried(tmp_path).keep("key", Measured((replace(QUIET, rdlv=Interval(0.1, nan, nan, 1)),), {"a": "b"}))
    json.loads((tmp_path / "key.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    (read,) = Tried(tmp_path).load("key").played
    assert read.rdlv.mean == 0.1
    assert read.rdlv.low != read.rdlv.low
    assert replace(read, rdlv=QUIET.rdlv) == QUIET


class TestWhomItLooksAt:
    def test_public_patients_by_default(self, bench):
        stage = stage_for(bench, settings(Reads()))
        assert isinstance(stage, SimulatedClients)
        assert stage.victims == 16
        assert "auxiliary" in stage.looked_at
        private = {split.name: split for split in stage.round.task.clients}["client-1"].train
        truth = stage.round.task.images.batch.images[list(private)]
        everybody = torch.cat([stage.split.learning.images, *(victim.images for victim in stage.split.victims)])
        assert not any(torch.equal(one, other) for one in truth for other in everybody)
        patients = [name for victim in stage.split.victims for name in victim.patients]
        assert not set(patients) & set(stage.split.learning.patients)

    def test_the_test_set_stands_in_where_public_patients_are_few(self, bench):
        stage = stage_for(bench, settings(Reads(), client="client-2"))
        assert stage.victims < 16
        assert len(stage.split.victims[0]) >= 8

    def test_records_are_private_and_it_is_said(self, bench):
        how = settings(Reads(), draws=3)
        stage = stage_for(bench, how)
        assert isinstance(stage, RecordedClient)
        assert "private updates of client-1" in stage.looked_at
        bare = without_defence(bench, stage, how)
        assert bare.worst.leak.mean > 0.3
        assert bare.worst.victims == 3


class TestCandidates:
    def test_one_strength_is_searched(self):
        both = candidate("fed-bn+percentile-gaussian", {})
        assert both.searched == "percentile-gaussian"
        assert both.at(3.0) == (("fed-bn", {}), ("percentile-gaussian", {"noise_scale": 3.0}))
        assert len(both.chain(3.0).parts) == 2
        assert candidate("fed-bn", {}).knob is None
        two = candidate("pruning+quantisation", {"pruning": {"sparsity": 0.5}})
        assert two.at(4.0) == (("pruning", {"sparsity": 0.5}), ("quantisation", {"bits": 4}))

    def test_two_open_strengths_are_too_many(self):
        with pytest.raises(BadInput, match="one strength is searched at a time"):
            candidate("pruning+quantisation", {})

    def test_names_and_settings_are_told_apart(self):
        assert split_names("fed-bn+clip-and-noise:clip_norm=1e+3") == [
            ("fed-bn", ""),
            ("clip-and-noise", "clip_norm=1e+3"),
        ]
        with pytest.raises(Misconfigured, match="did you mean"):
            candidate("fed-bm", {})

    def test_what_attacks_on_single_updates_cannot_judge(self, bench):
        hidden = candidate("secure-aggregation", {})
        check(bench, hidden)
        assert "no client's update alone" in hidden.not_seen
        with pytest.raises(Unsupported, match="at the server"):
            check(bench, candidate("central-dp", {"central-dp": {"clip_norm": 1.0, "noise_multiplier": 1.0}}))

    def test_one_without_a_strength_is_one_question(self, bench):
        bare, found = searched(bench, settings(Reads()), "clipping", clip_norm=1.0)
        (point,) = found.tried
        assert bare.leaks
        assert not point.safe
        assert (found.least, found.chosen) == (None, None)

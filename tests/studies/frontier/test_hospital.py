"""The questions about the hospital, put to a small one that has learned its images by heart."""

import pytest

from fluoroscope.cells import CellContext
from fluoroscope.errors import Unsupported
from fluoroscope.federation.plan import parse_plan
from fluoroscope.studies import STUDIES
from fluoroscope.studies.frontier import hospital
from fluoroscope.studies.frontier.hospital import Hospital
from fluoroscope.studies.study import Row

PLAN = {
    "rounds": 2,
    "evaluate_every": 2,
    "model": {"name": "lenet5"},
    "data": {"source": "phantom/chest", "size": 32, "channels": 1, "images": 150},
    "partition": {
        "name": "counts",
        "train": [[20, 10], [4, 4]],
        "validation": 2,
        "test": 40,
        "auxiliary": 40,
    },
    "training": {"optimiser": "adamw", "lr": 3e-3, "batch_size": 8, "epochs": 20},
    "records": {"clients": ["client-1"]},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hospital")


@pytest.fixture
def ask(monkeypatch, folder):
    """One cell about the small hospital."""
    monkeypatch.setattr(hospital, "hospital_plan", lambda scale, data, seed: parse_plan({**PLAN, "seed": seed}))

    def asked(what, attack, **more):
        few = {"round": 2, "stand_ins": 2, "simulations": 19, "canaries": 12, "runs": 2, **more}
        return Hospital(what, attack, **few).run(CellContext(0, folder, folder / "checkpoint"))

    return asked


def test_who_was_learned_by_heart_is_told(ask):
    found = ask("membership", "trajectory")
    assert found.measures["auc"] > 0.6
    assert found.measures["auc_low"] < found.measures["auc"] < found.measures["auc_high"]
    assert found.measures["p_value"] < 0.1
    assert found.curves["round"] == [1.0, 2.0]


def test_every_attack_is_asked_about_the_same_images(ask):
    assert ask("membership", "loss").measures["cases"] == ask("membership", "trajectory").measures["cases"]


def test_canaries_that_were_learned_by_heart_prove_something_and_shuffled_coins_nothing(ask):
    found = ask("canaries", "trajectory")
    assert found.measures["auc"] > 0.7
    assert found.measures["cases"] == 24
    assert found.measures["epsilon"] >= found.measures["epsilon_null"]


def test_counts_are_beside_the_plans_own(ask):
    found = ask("label counts", "learned-counts")
    assert found.measures["truth"] == 10
    assert found.measures["cases"] == 3
    assert found.measures["off"] >= abs(found.measures["guess"] - 10) / 10 - 1e-6  # single precision
    assert 0 <= found.measures["error"] <= 1
    assert found.measures["guess_low"] <= found.measures["guess"] + 0.5
    assert found.measures["guess_high"] >= found.measures["guess"] - 0.5
    assert len(found.curves["low"]) == len(found.curves["truth"]) == 3


def test_an_attack_that_cannot_read_many_steps_says_so(ask):
    with pytest.raises(Unsupported, match="reads one step"):
        ask("label counts", "restored-counts")


@pytest.mark.parametrize("asked", ["prevalence", pytest.param("exposure", marks=pytest.mark.slow)])
def test_shares_come_with_the_attackers_interval(ask, asked):
    found = ask(asked, "learned-share")
    assert found.measures["guess_low"] <= found.measures["guess"] <= found.measures["guess_high"]
    assert 0 <= found.measures["covered"] <= 1
    assert len(found.curves["truth"]) == 3
    if asked == "prevalence":
        assert found.measures["truth"] == pytest.approx(1 / 3)


@pytest.mark.slow
def test_the_figure_is_drawn(ask):
    study = STUDIES.get("frontier/hospital")
    cells = [Hospital("membership", "trajectory", 2), Hospital("canaries", "trajectory", 2)]
    results = [ask("membership", "trajectory"), ask("canaries", "trajectory")]
    rows = [Row(cell.settings, result, None, 1.0) for cell, result in zip(cells, results, strict=True)]
    assert len(study.draw("the hospital", rows).axes) == 4

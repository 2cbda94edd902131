"""A claim is tested where there is one, and a contradicted one is said so wherever it would be read."""

import json

import pytest
from typer.testing import CliRunner

from fluoroscope.audit import claim as claims
from fluoroscope.audit.claim import CONTRADICTED, ClaimTest, claim_cells, contradicted, contradictions, supported
from fluoroscope.audit.forecast import forecast
from fluoroscope.audit.kept import finding_of
from fluoroscope.audit.schedule import cells_of
from fluoroscope.audit.verdicts import Verdicts
from fluoroscope.cells import CellContext
from fluoroscope.cli.app import program
from fluoroscope.defences.mechanism import SampledGaussian
from fluoroscope.defences.reconstruction_bound import mechanism_bound
from fluoroscope.findings import Cell, Score

from .conftest import plan_of

SETTINGS = {
    "dp-sgd": {"name": "dp-sgd", "clip_norm": 1.0, "noise_multiplier": 1.0},
    "clip-and-noise": {"name": "clip-and-noise", "clip_norm": 1.0, "noise_multiplier": 2.0},
    "central-dp": {"name": "central-dp", "clip_norm": 1.0, "noise_multiplier": 2.0},
    "pruning": {"name": "pruning", "sparsity": 0.5},
}


def audit_plan(*names: str, model: str = "lenet5"):
    compare = [{"label": name, "defence": [SETTINGS[name]]} for name in names]
    return plan_of(model={"name": model}, audit={"compare": compare, "threats": ["curious-server"], "victims": 4})


def made(lower: float, any_lower: float = 0.0, label: str = "noisy", **scores: float) -> Cell:
    values = {"epsilon": 4.0, "epsilon_lower": lower, "epsilon_lower_any": any_lower, "reconstruction_bound": 0.6}
    found = {name: Score(value=value, chance=0.25) for name, value in {**values, **scores}.items()}
    return Cell(id="claim-noisy", kind="claim", defence=label, status="done", scores=found)


def test_every_claim_gets_its_test_and_nothing_else():
    plan = audit_plan(*SETTINGS)
    tested = [cell for cell in cells_of(plan) if isinstance(cell, ClaimTest)]
    assert [cell.label for cell in tested] == ["dp-sgd", "clip-and-noise", "central-dp"]
    assert {cell.client for cell in tested} == {plan.audited_clients[0].name}
    assert len({cell.id for cell in tested}) == 3
    expected = forecast(plan, tested, 1).seconds
    assert expected[tested[0].id] > expected[tested[1].id] > 0  # DP-SGD trains for its games


def test_statistics_that_leave_open_leave_nothing_to_test():
    assert not claim_cells(audit_plan("central-dp", model="small-cnn"), "central-dp")


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("dp-sgd", SampledGaussian(1.0)),
        ("clip-and-noise", SampledGaussian(1.0)),
        # 42 of 131 images are the largest client's, among five.
        ("central-dp", SampledGaussian(2.0 / (5 * 42 / 131))),
    ],
)
def test_the_bound_stands_beside_the_claim(name, mechanism, monkeypatch, tmp_path):
    monkeypatch.setattr(claims, "_GAMES", 60)
    monkeypatch.setattr(claims, "_LEAST", 10)
    monkeypatch.setattr(claims, "_WORK", 120)
    (cell,) = claim_cells(audit_plan(name), name)
    scores = finding_of(cell.run(CellContext(0, tmp_path, tmp_path / "checkpoint"))).scores
    assert scores["epsilon"].value == pytest.approx(mechanism.epsilon(1e-5))
    assert 0 <= scores["epsilon_lower"].value < scores["epsilon"].value
    assert 0 <= scores["epsilon_lower_any"].value < scores["epsilon"].value
    assert scores["reconstruction_bound"].chance == 0.25
    bound = scores["reconstruction_bound"].value
    assert bound == (None if name == "central-dp" else pytest.approx(mechanism_bound(0.25, mechanism)))


@pytest.mark.parametrize("cell", [made(4.1), made(1.0, 4.1)])
def test_a_contradiction_is_loud(cell):
    assert contradicted([cell])["noisy"].statement == CONTRADICTED
    assert contradicted([cell])["noisy"].epsilon is None
    (said,) = contradictions([cell])
    assert "CONTRADICTED" in said.text
    assert [number.pointer.split("/")[-2] for number in said.numbers][1] == "epsilon"
    assert not supported([cell])


def test_a_claim_that_stands_is_said_with_both_ends():
    cell = made(3.0)
    assert not contradicted([cell])
    assert not contradictions([cell])
    (said,) = supported([cell])
    assert len(said.numbers) == 4
    assert len(supported([made(3.0, reconstruction_bound=None)])[0].numbers) == 2


def test_a_contradicted_setting_is_neither_safe_to_say_nor_recommended():
    plan = audit_plan("dp-sgd")
    federation = Cell(
        id="federation-dp-sgd", kind="federation", defence="dp-sgd", status="done",
        scores={"epsilon": Score(value=4.0), "accuracy": Score(value=0.9)},
    )  # fmt: skip
    kept, broken = (Verdicts(plan, [federation, made(lower, label="dp-sgd")]) for lower in (3.0, 5.0))
    assert any("no client's epsilon exceeds" in text.text for text in kept.safe_to_say())
    assert not any("epsilon" in text.text for text in broken.safe_to_say())
    assert "CONTRADICTED" in broken.not_safe_to_say()[0].text
    assert not any("CONTRADICTED" in text.text for text in kept.not_safe_to_say())


def test_the_command_says_what_is_proved_beside_what_is_claimed(monkeypatch, tmp_path):
    monkeypatch.setattr(claims, "_GAMES", 60)
    plan = tmp_path / "plan.toml"
    plan.write_text(
        """data = {source = "phantom/chest", size = 28, images = 60}
model = {name = "lenet5"}
[[defence]]
name = "clip-and-noise"
clip_norm = 1.0
noise_multiplier = 2.0
"""
    )
    done = CliRunner().invoke(program(), ["canaries", str(plan), "--json"])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["claims"]
    assert 0 <= row["epsilon_lower"] < row["epsilon"]
    assert not row["contradicted"]
    monkeypatch.setattr(claims, "exceeds", lambda scores: True)
    done = CliRunner().invoke(program(), ["canaries", str(plan)])
    assert (done.exit_code, "CONTRADICTED" in done.stdout) == (4, True)
    plan.write_text(plan.read_text().replace("lenet5", "small-cnn").replace("clip-and-noise", "central-dp"))
    refused = CliRunner().invoke(program(), ["canaries", str(plan)])
    assert "claims an epsilon" in str(refused.exception)

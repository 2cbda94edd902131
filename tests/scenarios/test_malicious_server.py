"""P2's threat on a plan: with the guard on, clients refuse and nothing leaks; without it, images come back."""

import json

import pytest

from fluoroscope.attacks.imprint import Peeling
from fluoroscope.data import Request, load
from fluoroscope.defences.guard import inspect
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.federation.plan import read_plan
from fluoroscope.federation.task import load_task
from fluoroscope.scenarios.malicious_round import cast
from fluoroscope.scenarios.malicious_server import MaliciousServer, chosen_victims, run_malicious_rounds
from tests.cli.test_cli import fluoroscope

PLAN = """
rounds = 1
[data]
source = "phantom/chest"
size = 28
images = 700
[partition]
name = "p2"
[model]
name = "lenet5"
[training]
lr = 0.05
epochs = 2
batch_size = 1000
"""


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def test_without_a_guard_the_images_come_back(plan, tmp_path):
    done = fluoroscope("medileak", "plan.toml", "--json", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["victims"]
    assert row["rate"] > 0.95
    assert row["psnr"] > 50
    assert (tmp_path / "out/recovered.png").stat().st_size > 1000


def test_with_the_guard_every_client_refuses_and_nothing_leaks(plan, tmp_path):
    done = fluoroscope("medileak", "plan.toml", "--guard", "--out", "out", cwd=tmp_path)
    assert done.returncode == 3
    assert "client-1, client-2, client-3, client-4, client-5 refused" in done.stderr
    assert "Traceback" not in done.stderr
    found = json.loads((tmp_path / "out/findings.json").read_text())
    assert found["victims"] == []
    assert [verdict["refused"] for verdict in found["verdicts"].values()] == [True] * 5
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["findings.json"]


def test_with_consistency_the_sum_over_different_models_is_noise(plan):
    task = load_task(read_plan(plan))
    server = MaliciousServer((0,), 1, None, Peeling(), "secagg+")
    outcome = run_malicious_rounds(task, server, guard=False, seed=0, consistency=True)
    (taken,) = outcome.recoveries
    assert int(taken.score.recovered.sum()) == 0
    assert not outcome.refused


def test_consistency_needs_secure_aggregation(plan, tmp_path):
    done = fluoroscope("medileak", "plan.toml", "--consistency", "--aggregation", "plain", cwd=tmp_path)
    assert done.returncode == 2
    assert "leave out --aggregation plain" in done.stderr


def test_an_honest_server_passes_the_guard(plan):
    """The guard of `medileak` lets the agreed network through: what it refuses is what was crafted."""
    task = load_task(read_plan(plan))
    for client in range(len(task.clients)):
        verdict = inspect(task.initial_state, task.model, task.train_batch(client).images)
        assert not verdict.refused, verdict.summary


def test_rounds_and_victims_are_harvested(plan):
    task = load_task(read_plan(plan))
    victims = chosen_victims(task, ["client-2", "client-1"])
    outcome = run_malicious_rounds(task, MaliciousServer(victims, 3, None, Peeling(), "plain sum"), guard=False, seed=0)
    assert [each.victim for each in outcome.recoveries] == ["client-2", "client-1"]
    assert all(each.score.rate.mean > 0.9 for each in outcome.recoveries)


def test_a_client_that_is_not_there_is_named(plan):
    with pytest.raises(BadInput, match="no client 'client-9'"):
        chosen_victims(load_task(read_plan(plan)), ["client-9"])


def test_the_cast_shares_no_patient():
    images = load("phantom/chest", Request(size=28, images=400, seed=0))
    held = cast(images, 5, 60, 0)
    sides = [set(batch.patients) for batch in (*held.clients, held.auxiliary)]
    assert len(held.clients[0]) == 60
    assert sum(map(len, sides)) == len(set().union(*sides))


def test_too_few_images_are_named():
    with pytest.raises(Misconfigured, match="too few for a victim with 390"):
        cast(load("phantom/chest", Request(size=28, images=400, seed=0)), 5, 390, 0)

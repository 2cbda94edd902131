"""Federations under defences: what is sent, what stays, what is claimed, and when they stop."""

import json
from dataclasses import replace

import dp_accounting
import pytest
import torch
from dp_accounting.rdp import RdpAccountant
from flwr.serverapp.strategy import FedAvg
from torch import nn

from fluoroscope.defences.svt_privacy import SvtPrivacy
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.federation.plan import read_plan
from fluoroscope.federation.privacy import claimed
from fluoroscope.federation.run import federate
from fluoroscope.federation.strategies import STRATEGIES
from fluoroscope.federation.task import load_task
from fluoroscope.models.modes import moving_buffers
from fluoroscope.types import LocalTraining, Sgd

from .conftest import digests, plan_of

SMALL = {"data": {"images": 60}, "rounds": 2}


def run(tmp_path, defence, name="run", **changes):
    plan = plan_of(**{**SMALL, **changes}, defence=defence)
    return federate(plan, tmp_path / name), plan


def test_noise_is_what_the_server_records(tmp_path):
    plain, _ = run(tmp_path, [], "plain", rounds=1)
    noised, _ = run(tmp_path, [{"name": "percentile-gaussian", "noise_scale": 5}], "noised", rounds=1)
    a, b = (store.load(1, "client-1") for store in (plain, noised))
    assert all(not torch.equal(a.state_after[name], b.state_after[name]) for name in a.state_after)
    assert "not differential privacy" in b.claim.statement
    assert "no defence" in a.claim.statement


def test_what_stays_at_home_is_not_recorded_and_not_averaged(tmp_path):
    store, _ = run(tmp_path, [{"name": "fed-bn"}])
    record = store.load(2, "client-1")
    assert record.buffers_after is None
    first, last = store.global_state(0), store.global_state(2)
    buffers = [name for name in first if "running" in name]
    assert buffers
    assert all(torch.equal(first[name], last[name]) for name in buffers)
    result = json.loads((store.folder / "result.json").read_text())
    assert result["last"]["loss"] < 5  # with statistics of the server's own images


@pytest.mark.parametrize("strategy", ["fedavg", "fedadam", "fedmedian"])
def test_hidden_layers_leave_the_server_s_copy_as_it_was(tmp_path, strategy):
    task = load_task(plan_of(**SMALL))
    layer = next(iter(task.initial_state)).rpartition(".")[0]
    store, _ = run(tmp_path, [{"name": "hidden-layers", "layers": [layer]}], strategy={"name": strategy})
    before, after = store.global_state(0), store.global_state(2)
    for name, value in before.items():
        if name.startswith(f"{layer}."):
            torch.testing.assert_close(after[name], value, atol=1e-6, rtol=1e-5)
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert not [name for name in store.load(2, "client-1").state_after if name.startswith(f"{layer}.")]


def test_adaptive_clipping_covers_the_statistics_and_goes_on_with_its_norm(tmp_path):
    defence = [{"name": "adaptive-clipping", "noise_multiplier": 0.05, "num_sampled_clients": 3}]
    whole, _ = run(tmp_path, defence, "whole", rounds=3)
    run(tmp_path, defence, "grown", rounds=1)
    grown, _ = run(tmp_path, defence, "grown", rounds=3)
    assert digests(grown.folder) == digests(whole.folder)
    noise = [whole.manifest(number).cohort.noise for number in (1, 2, 3)]
    assert len(set(noise)) == 3  # it follows the norm
    before, after, record = whole.global_state(2), whole.global_state(3), whole.load(3, "client-1")
    sent, left = (
        torch.cat([state[name] - before[name] for name in before if "running" in name]).norm()
        for state in (record.buffers_after, after)
    )
    assert float(left) < 0.1 * float(sent)  # clipped with the rest
    assert record.claim.epsilon is not None
    assert record.claim.trust == "central"


def test_the_filters_of_others_count_what_the_network_has(tmp_path):
    store, _ = run(tmp_path, [{"name": "svt-privacy"}])
    values = sum(value.numel() for value in store.global_state(0).values())
    first, second = (store.load(number, "client-1").claim for number in (1, 2))
    assert f"{SvtPrivacy().budget(values).total:.6g} with a delta of 0" in first.statement
    assert first.epsilon < second.epsilon


def test_fed_bn_needs_public_images_to_test_on(tmp_path):
    with pytest.raises(Misconfigured, match="auxiliary"):
        run(tmp_path, [{"name": "fed-bn"}], partition={"auxiliary": 0.0})


def test_central_dp_moves_the_model_by_the_clip_and_its_noise(tmp_path):
    tight = [{"name": "central-dp", "clip_norm": 0.001, "noise_multiplier": 0.0}]
    store, _ = run(tmp_path, tight, rounds=1)
    before, after = store.global_state(0), store.global_state(1)
    parameters = list(store.load(1, "client-1").state_after)
    moved = torch.cat([(after[name] - before[name]).flatten() for name in parameters]).norm()
    assert 0 < float(moved) <= 0.001 * 1.01
    noisy, _ = run(tmp_path, [{"name": "central-dp", "clip_norm": 0.001, "noise_multiplier": 30.0}], "noisy", rounds=1)
    noise = torch.cat([(noisy.global_state(1)[n] - after[n]).flatten() for n in parameters])
    assert float(noise.std()) == pytest.approx(30 * 0.001 / 3, rel=0.1)


def test_statistics_that_are_averaged_without_noise_void_central_dp():
    noise = {"name": "central-dp", "noise_multiplier": 2.0}
    statements = {}
    for model, defence in (
        ("small-cnn", [noise]),
        ("small-cnn", [{"name": "fed-bn"}, noise]),
        ("lenet5", [noise]),
    ):
        task = load_task(plan_of(**SMALL, model={"name": model}, defence=defence))
        claim = claimed(task, task.training(10, 5, 1, 0.1), 1)
        statements[model, len(defence)] = claim.statement if claim.epsilon is None else claim.unit
    assert "averaged and released without noise" in statements["small-cnn", 1]
    assert statements["small-cnn", 2] == statements["lenet5", 1] == "client"


def test_constants_among_the_buffers_are_no_statistics():
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Dropout(), nn.Linear(72, 2))
    network.register_buffer("positions", torch.ones(3))
    training, images = LocalTraining(Sgd(0.1), 2, 2), torch.rand(2, 1, 8, 8)
    assert moving_buffers(network, training, images) == {"1.running_mean", "1.running_var"}
    assert not moving_buffers(network, replace(training, batchnorm="eval"), images)


@pytest.mark.parametrize(
    ("strategy", "late", "early"),
    [
        ("fedavg", True, True), ("fedprox", True, True), ("fedopt", True, True),  # plain means
        ("fedavgm", False, True), ("fedadam", False, True), ("fedyogi", False, True),  # what they do with a mean
        ("fedmedian", False, False),
    ],
)  # fmt: skip
def test_the_strategy_is_asked_whether_noise_at_the_server_bounds_a_client(strategy, late, early):
    for before_optimiser, bounded in ((False, late), (True, early)):
        defence = [{"name": "central-dp", "noise_multiplier": 2.0, "before_optimiser": before_optimiser}]
        model = {"name": "lenet5"}  # no BatchNorm, whose statistics no claim would cover
        task = load_task(plan_of(**SMALL, model=model, defence=defence, strategy={"name": strategy}))
        claim = claimed(task, task.training(10, 5, 1, 0.1), 1)
        assert (claim.epsilon is not None) == bounded
        assert (claim.relation, claim.trust) == (("zero-out", "central") if bounded else (None, None))


def test_a_strategy_of_somebody_s_own_that_is_no_mean_gets_no_claim(monkeypatch):
    class Trimmed(FedAvg):
        def aggregate_train(self, server_round, replies):
            return super().aggregate_train(server_round, list(replies)[1:])

    monkeypatch.setattr(STRATEGIES, "get", lambda name: Trimmed)
    defence = [{"name": "central-dp", "noise_multiplier": 2.0, "before_optimiser": True}]
    task = load_task(plan_of(**SMALL, defence=defence, strategy={"name": "trimmed"}))
    assert claimed(task, task.training(10, 5, 1, 0.1), 1).epsilon is None


def test_epsilon_grows_with_the_rounds_and_stops_at_the_budget(tmp_path):
    defence = [{"name": "dp-sgd", "clip_norm": 1.0, "noise_multiplier": 2.0}]
    changes = {"model": {"name": "lenet5"}, "data": {"images": 60, "size": 32}}
    store, _ = run(tmp_path, defence, rounds=3, **changes)
    training = store.load(1, "client-1").training
    for server_round in (1, 2, 3):
        event = dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(8 / training.images, dp_accounting.GaussianDpEvent(2.0)),
            training.steps * server_round,
        )
        spent = store.load(server_round, "client-1").claim.epsilon
        assert spent == pytest.approx(RdpAccountant().compose(event).get_epsilon(1e-5))
    after_two = max(entry.claim.epsilon for entry in store.manifest(2).clients.values())
    stopped, _ = run(tmp_path, defence, "stopped", rounds=3, privacy={"epsilon": after_two + 1e-6}, **changes)
    assert max(stopped.rounds()) == 2
    assert "after 2 of 3 rounds" in json.loads((stopped.folder / "result.json").read_text())["stopped"]


@pytest.mark.parametrize(
    ("defence", "budget", "message"),
    [
        ([{"name": "percentile-gaussian", "noise_scale": 1}], 8.0, "needs a defence that counts it"),
        ([{"name": "central-dp"}], 8.0, "averaged and released without noise"),
        ([{"name": "fed-bn"}, {"name": "central-dp"}], 8.0, "does not last for one round"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused(tmp_path, defence, budget, message):
    with pytest.raises(Misconfigured, match=message):
        run(tmp_path, defence, privacy={"epsilon": budget})


@pytest.mark.parametrize(
    ("defence", "message"),
    [
        ([{"name": "percentile-gausian", "noise_scale": 1}], "did you mean 'percentile-gaussian'"),
        ([{"name": "percentile-gaussian", "sigma": 1}], "no setting 'sigma'; it takes: noise_scale, percentile"),
        ([{"name": "percentile-gaussian"}], "needs the setting 'noise_scale'"),
        ([{"name": "percentile-gaussian", "noise_scale": -1}], "noise_scale must be 0 or more"),
        ([{"name": "percentile-gaussian", "noise_scale": "much"}], "noise_scale: .*not 'much'"),
    ],
)
def test_wrong_settings_are_named(tmp_path, defence, message):
    with pytest.raises(Misconfigured, match=message):
        run(tmp_path, defence)


def test_a_defended_run_gives_the_same_bytes_twice(tmp_path):
    defence = [
        {"name": "fed-bn"},
        {"name": "percentile-gaussian", "noise_scale": 1},
        {"name": "quantisation", "bits": 8},
    ]
    first, _ = run(tmp_path, defence, "a")
    second, _ = run(tmp_path, defence, "b")
    assert digests(first.folder) == digests(second.folder)


def test_what_dp_sgd_cannot_train_is_found_before_anything_is_written(tmp_path):
    with pytest.raises(Unsupported, match="resnet18-gn"):
        run(tmp_path, [{"name": "dp-sgd", "clip_norm": 1.0, "noise_multiplier": 1.0}])
    assert not (tmp_path / "run").exists()


def test_a_key_is_where_the_plan_says(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('[[defence]]\nname = "homomorphic-encryption"\nkey = "keys/he.bin"\n')
    assert read_plan(plan).defence[0].settings["key"] == str(tmp_path / "keys/he.bin")

"""The one client round: it is what federations record, for every strategy and every defence."""

import pytest
import torch
from torch import nn

from fluoroscope.defences import DEFENCES, NO_DEFENCE, chain
from fluoroscope.defences.clip_and_noise import ClipAndNoise
from fluoroscope.defences.clipping import Clipping
from fluoroscope.defences.dp_sgd import DpSgd
from fluoroscope.defences.fed_bn import FedBn
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.client import planned_round
from fluoroscope.federation.client_round import client_round
from fluoroscope.federation.local_training import local_training
from fluoroscope.federation.run import federate
from fluoroscope.federation.strategies import STRATEGIES
from fluoroscope.federation.task import load_task
from fluoroscope.models import Architecture
from fluoroscope.scenarios.stand_ins import stand_in_round
from fluoroscope.types import LocalTraining, Network, PrivateBatch, Sgd

from .conftest import plan_of

SETTINGS = {
    "adaptive-clipping": {"noise_multiplier": 0.1, "num_sampled_clients": 2},
    "local-dp": {"clip_norm": 1.0, "sensitivity": 0.01, "epsilon": 1.0},
    "clip-and-noise": {"clip_norm": 1.0, "noise_multiplier": 0.5},
    "clipping": {"clip_norm": 0.5},
    "dp-sgd": {"clip_norm": 1.0, "noise_multiplier": 0.5},
    "central-dp": {"clip_norm": 1.0, "noise_multiplier": 0.1},
    "metric-privacy": {"clip_norm": 1.0, "noise_multiplier": 0.1},
    "hidden-layers": {"layers": ["body.0"]},
    "percentile-gaussian": {"noise_scale": 1.0},
    "pruning": {"sparsity": 0.5},
    "quantisation": {"bits": 8},
}


def assert_recorded(plan, folder, rounds):
    """Every recorded update, made again from the global model before it and what the client had kept."""
    store, task = federate(plan, folder), load_task(plan)
    kept = {split.name: {} for split in task.clients}
    for server_round in range(1, rounds + 1):
        config, before = task.round_config(server_round), store.global_state(server_round - 1)
        for number, split in enumerate(task.clients):
            done = planned_round(task, number, config, before, kept[split.name])
            kept[split.name] = done.local_state
            record = store.load(server_round, split.name)
            assert done.record.training == record.training
            for ours, theirs in (
                (done.record.state_before, record.state_before),
                (done.record.state_after, record.state_after),
                (done.record.buffers_before, record.buffers_before),
                (done.record.buffers_after or {}, record.buffers_after or {}),
            ):
                assert set(ours) == set(theirs)
                assert all(torch.equal(ours[name], theirs[name]) for name in ours)
            assert (done.record.buffers_after is None) == (record.buffers_after is None)


@pytest.mark.parametrize("strategy", list(STRATEGIES))
def test_what_is_recorded_under_every_strategy(strategy, tmp_path):
    assert_recorded(plan_of(rounds=2, strategy={"name": strategy}), tmp_path / "run", 2)


@pytest.mark.parametrize("name", [name for name in DEFENCES if name != "homomorphic-encryption"])
def test_what_is_recorded_under_every_defence(name, tmp_path):
    model = {"name": "lenet5" if name in ("dp-sgd", "clip-and-noise") else "small-cnn"}  # no BatchNorm for these
    defence = [{"name": name, **SETTINGS.get(name, {})}]
    plan = plan_of(rounds=2, model=model, defence=defence, partition={"name": "iid", "clients": 2, "auxiliary": 0.2})
    assert_recorded(plan, tmp_path / "run", 2)


def test_what_is_recorded_of_a_sealed_update(tmp_path):
    pytest.importorskip("tenseal")
    key = str(tmp_path / "clients.key")
    defence = [{"name": "homomorphic-encryption", "key": key, "layers": ["body.0"]}]
    # One round: the next begins with a sum that only the clients can open.
    assert_recorded(plan_of(rounds=1, model={"name": "lenet5"}, defence=defence), tmp_path / "run", 1)


def test_a_stand_in_trains_as_the_plan_s_strategy_says(tmp_path):
    """FedProx's term, which an audit once forgot: with the client's own images it sends the client's own update."""
    plan = plan_of(rounds=1, strategy={"name": "fedprox", "proximal_mu": 5.0}, training={"epochs": 3})
    store, task = federate(plan, tmp_path / "run"), load_task(plan)
    batch, rng = task.train_batch(0), task.training_rng(0, task.round_config(1))
    record = stand_in_round(task, store.global_state(0), 1, batch, plan.training.batch_size, rng, "client-1")
    recorded = store.load(1, task.clients[0].name)
    assert record.training.proximal_mu == 5.0
    assert all(torch.equal(value, recorded.state_after[name]) for name, value in record.state_after.items())


def network() -> Network:
    torch.manual_seed(0)
    return Network.of(
        nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 2)), (1, 8, 8)
    )


def batch(n: int = 4) -> PrivateBatch:
    g = torch.Generator().manual_seed(1)
    return PrivateBatch(torch.rand(n, 1, 8, 8, generator=g), torch.arange(n) % 2, ("",) * n)


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(2)


def test_without_a_defence_everything_is_sent_and_nothing_stays():
    training = LocalTraining(Sgd(0.1), 4, 2)
    state = network().build().state_dict()
    done = client_round(network(), state, batch(), training, rng())
    plain = local_training(network().build(), state, batch(), training, rng())
    assert done.local_state == {}
    assert done.loss == plain.loss
    assert all(torch.equal(done.sent[name], value) for name, value in plain.state.items())


def test_what_stays_at_home_is_put_into_the_next_round():
    training, fed_bn = LocalTraining(Sgd(0.1), 4, 2), chain(FedBn(parameters=True))
    state = network().build().state_dict()
    first = client_round(network(), state, batch(), training, rng(), fed_bn)
    assert set(first.local_state) == {name for name in state if name.startswith("1.")}
    again = client_round(network(), state, batch(), training, rng(), fed_bn, local_state=first.local_state)
    fresh = client_round(network(), state, batch(), training, rng(), fed_bn)
    assert not torch.equal(again.sent["0.weight"], fresh.sent["0.weight"])
    assert torch.equal(again.record.state_before["1.weight"], state["1.weight"])  # the server's, not the client's own


def test_a_defence_may_draw_from_a_generator_of_its_own():
    training, state = LocalTraining(Sgd(0.1), 4, 2), network().build().state_dict()
    noisy = chain(FedBn(), ClipAndNoise(1.0, 0.5))
    runs = [
        client_round(network(), state, batch(), training, rng(), noisy, defence_rng=torch.Generator().manual_seed(s))
        for s in (1, 1, 2)
    ]
    assert torch.equal(runs[0].sent["0.weight"], runs[1].sent["0.weight"])
    assert not torch.equal(runs[0].sent["0.weight"], runs[2].sent["0.weight"])


def test_dp_sgd_keeps_fedprox_s_term():
    """Without noise and clipping far away, a private step is a plain one, the pull towards the start included."""
    architecture, start = Architecture("lenet5", 1, 2, 28), Architecture("lenet5", 1, 2, 28).build().state_dict()
    images = PrivateBatch(torch.rand(2, 1, 28, 28, generator=rng()), torch.tensor([0, 1]), ("", ""))
    training = LocalTraining(Sgd(0.1), 2, 2, epochs=4, proximal_mu=3.0)
    ours = client_round(architecture, start, images, training, rng(), chain(DpSgd(1e6, 0.0)))
    plain = client_round(architecture, start, images, training, rng())
    free = client_round(architecture, start, images, LocalTraining(Sgd(0.1), 2, 2, epochs=4), rng())
    for name, value in plain.sent.items():
        torch.testing.assert_close(ours.sent[name], value, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(ours.sent["fc.weight"], free.sent["fc.weight"], atol=1e-3)


def test_a_claim_comes_with_the_record():
    state, training = network().build().state_dict(), LocalTraining(Sgd(0.1), 4, 4)
    done = client_round(network(), state, batch(), training, rng(), chain(FedBn(), ClipAndNoise(1.0, 2.0)))
    assert done.record.claim.epsilon is not None
    bare = client_round(network(), state, batch(), training, rng(), NO_DEFENCE)
    assert bare.record.claim.epsilon is None
    clipped = client_round(network(), state, batch(), training, rng(), chain(Clipping(1.0)))
    assert clipped.record.claim.epsilon is None


def test_a_training_for_another_number_of_images_is_refused():
    with pytest.raises(Misconfigured, match="set for 5 images, and client has 4"):
        client_round(network(), network().build().state_dict(), batch(), LocalTraining(Sgd(0.1), 5, 2), rng())

"""Flower's LocalDpMod and adaptive clipping, against Flower's own classes."""

import math
from types import SimpleNamespace

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting.rdp import RdpAccountant
from flwr.app import ConfigRecord, MetricRecord, RecordDict
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp.strategy import DifferentialPrivacyServerSideAdaptiveClipping, FedAvg
from torch import nn

from fluoroscope.defences import AdaptiveServerDefence, Participation, WholeStateDefence, chain
from fluoroscope.defences.adaptive_clipping import AdaptiveClipping
from fluoroscope.defences.contract import norm
from fluoroscope.defences.local_dp import LocalDp
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.buffers import AveragedBuffers
from fluoroscope.federation.client_round import client_round
from fluoroscope.federation.cohort import DefendedStrategy
from fluoroscope.federation.messages import to_arrays, to_state
from fluoroscope.federation.strategies import restore_server_state, server_state
from fluoroscope.types import LocalTraining, Network, PrivateBatch, Sgd
from tests.defences.records import record, rng

TRAINING = LocalTraining(Sgd(0.1), 8, 2)


def whole(plain, after=True):
    if after:
        return {**plain.state_after, **plain.buffers_after}
    return {**plain.state_before, **plain.buffers_before}


def through_flower(mod, plain):
    """What the mod makes of a client's reply."""

    def message(state):
        return SimpleNamespace(content=RecordDict({"arrays": to_arrays(state)}), has_error=lambda: False)

    reply = mod(message(whole(plain, after=False)), None, lambda *_: message(whole(plain)))
    return to_state(reply.content.array_records["arrays"])


@pytest.mark.parametrize("clip_norm", [0.05, 1.2, 1e3])
def test_local_dp_is_flower_s(clip_norm, monkeypatch):
    """With the same draws: parameters, statistics and the counter that only counts."""
    plain, draws = record(), rng(7)

    def normal(mean, deviation, shape):
        return np.zeros(()) if shape == () else deviation * torch.randn(shape, generator=draws).numpy()

    monkeypatch.setattr(np.random, "normal", normal)
    theirs = through_flower(LocalDpMod(clip_norm, 0.01, 2.0, 1e-5), plain)
    ours = LocalDp(clip_norm, 0.01, 2.0, 1e-5).send(plain, rng(7))
    torch.testing.assert_close(whole(ours), theirs, rtol=1e-5, atol=1e-6)
    counter = next(name for name in theirs if name.endswith("num_batches_tracked"))
    assert int(theirs[counter]) == 1


def test_the_claim_of_local_dp_is_what_its_noise_is_worth():
    """Not its setting: two clipped updates are two norms apart, and rounds add up."""

    def claimed(rounds=1, **settings):
        defence = LocalDp(**{"clip_norm": 1.0, "sensitivity": 2.0, "epsilon": 0.9, **settings})
        return defence.claim(Participation(TRAINING, rounds)).epsilon

    multiplier = math.sqrt(2 * math.log(1.25e5)) / 0.9
    for rounds in (1, 20):
        event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(multiplier), rounds)
        assert claimed(rounds) == pytest.approx(RdpAccountant().compose(event).get_epsilon(1e-5))
    assert claimed() < 0.9 < claimed(sensitivity=1.0) < claimed(sensitivity=1.0, clip_norm=2.0)
    assert claimed(20) > 4 * claimed()
    assert LocalDp(1.0, 0.0, 1.0).claim(Participation(TRAINING, 1)).epsilon is None


class Scaled(nn.Module):
    """With a single number that is learnt."""

    def __init__(self):
        super().__init__()
        self.body, self.scale = nn.Linear(16, 2), nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return self.scale * self.body(x.flatten(1))


def test_a_single_number_passes_and_voids_the_claim():
    network, training = Network.of(Scaled(), (1, 4, 4)), LocalTraining(Sgd(0.5), 2, 2)
    batch = PrivateBatch(torch.rand(2, 1, 4, 4, generator=rng()), torch.tensor([0, 1]), ("a", "b"))
    state = network.build().state_dict()
    plain = client_round(network, state, batch, training, rng()).record
    done = client_round(network, state, batch, training, rng(), chain(LocalDp(1e-3, 1.0, 1.0))).record
    assert done.claim.epsilon is None
    assert "vector of one" in done.claim.statement
    assert torch.equal(done.state_after["scale"], plain.state_after["scale"])
    assert not torch.equal(done.state_after["body.bias"], plain.state_after["body.bias"])


# Adaptive clipping


def start():
    return {"w": torch.zeros(6, 5), "bn.running_mean": torch.zeros(5), "bn.num_batches_tracked": torch.tensor(3)}


def reply(number, length):
    generator = rng(number)
    way = {"w": torch.rand(6, 5, generator=generator), "bn.running_mean": torch.rand(5, generator=generator)}
    scale = math.sqrt(length**2 - 1) / float(norm(way))  # the counter moves by one
    state = {name: start()[name] + scale * value for name, value in way.items()} | {
        "bn.num_batches_tracked": torch.tensor(4)
    }
    content = RecordDict({"arrays": to_arrays(state), "metrics": MetricRecord({"num-examples": 4.0, "loss": 1.0})})
    return SimpleNamespace(content=content, has_content=lambda: True, has_error=lambda: False)


class NoNodes(FedAvg):
    """Sends nothing to anyone."""

    def configure_train(self, server_round, arrays, config, grid):
        return []


LENGTHS = [(1.5, 2.0, 2.5), (1.5, 9.0, 9.5), (9.0, 9.5, 8.0)]
BUFFERS = frozenset({"bn.running_mean", "bn.num_batches_tracked"})


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("multiplier", [0.0, 0.2])
def test_adaptive_clipping_is_flower_s(lengths, multiplier, monkeypatch):
    """Three rounds, all draws 0: the same norms and means, and noise of the same size, which Flower is asked for."""
    deviations = []

    def normal(mean, deviation, shape=None):
        deviations.append(float(deviation))
        return mean if shape is None else np.zeros(shape)

    monkeypatch.setattr(np.random, "normal", normal)
    monkeypatch.setattr(torch, "randn", lambda *shape, generator: torch.zeros(shape[0]))
    theirs = DifferentialPrivacyServerSideAdaptiveClipping(NoNodes(), multiplier, 3, 4.0)
    ours = DefendedStrategy(AveragedBuffers(NoNodes(), BUFFERS), AdaptiveClipping(multiplier, 3, clip_norm=4.0), seed=0)
    for _ in range(3):
        left = []
        for strategy in (theirs, ours):
            list(strategy.configure_train(1, to_arrays(start()), ConfigRecord(), None))
            replies = [reply(number, length) for number, length in enumerate(lengths)]
            left.append(strategy.aggregate_train(1, replies))
        (expected, _), (found, metrics) = left
        for name in ("w", "bn.running_mean"):
            torch.testing.assert_close(to_state(found)[name], to_state(expected)[name].float(), rtol=1e-5, atol=1e-6)
        assert int(to_state(found)["bn.num_batches_tracked"]) == 4
        assert ours.defence.clip_norm == pytest.approx(theirs.clipping_norm, rel=1e-6)
        assert metrics["cohort-noise"] == pytest.approx(deviations[-1], rel=1e-6)


def test_the_norm_runs_away_from_the_quantile():
    """As shipped: where most are clipped it shrinks, where few are it grows, and there is no way back."""
    lengths = torch.linspace(0.5, 1.5, 20)
    cohort = [{"w": torch.ones(1) * length} for length in lengths]
    for initial, ends in ((0.7, lambda end: end < 0.1), (1.3, lambda end: end > 10)):
        defence, generator = AdaptiveClipping(0.5, 20, clip_norm=initial), rng()
        for _ in range(40):
            defence = defence.adapted(cohort, generator)
        assert ends(defence.clip_norm)


def test_the_claim_of_adaptive_clipping_counts_the_count_and_the_next_norm():
    defence, part = AdaptiveClipping(0.5, 20), Participation(TRAINING, 1, 20, 1 / 20)
    claim = defence.claim(part)
    nominal = RdpAccountant().compose(dp_accounting.GaussianDpEvent(0.5)).get_epsilon(1e-5)
    assert nominal < claim.epsilon < 2 * nominal
    # A slow way: the mean's noise at the worst next norm, and a count that a client moves by one.
    tail = -float(torch.special.ndtri(torch.tensor(5e-6, dtype=torch.float64)))
    worst = defence.moved(1 + tail / 20) / 0.1
    both = dp_accounting.ComposedDpEvent(
        [dp_accounting.GaussianDpEvent(defence.mean_multiplier * worst), dp_accounting.GaussianDpEvent(1.0)]
    )
    assert claim.epsilon == pytest.approx(RdpAccountant().compose(both).get_epsilon(5e-6), rel=1e-6)
    assert (claim.unit, claim.relation, claim.trust) == ("client", "zero-out", "central")
    assert defence.claim(Participation(TRAINING, 1, 20, None)).epsilon is None
    assert defence.claim(Participation(TRAINING, 1, 20, 1 / 20, open_scalars=True)).epsilon is None
    assert AdaptiveClipping(0.0, 20).claim(part).epsilon is None


def test_a_run_that_was_stopped_goes_on_with_its_norm():
    def strategy(clip_norm):
        return AveragedBuffers(DefendedStrategy(FedAvg(), AdaptiveClipping(0.2, 3, clip_norm), seed=0), BUFFERS)

    stopped, again = strategy(0.0123456789), strategy(0.1)
    kept = server_state(stopped)
    restore_server_state(again, kept)
    assert again.inner.defence.clip_norm == 0.0123456789
    assert server_state(AveragedBuffers(FedAvg(), BUFFERS)) == {}


def test_too_much_noise_for_the_count_is_refused_as_flower_does():
    with pytest.raises(ValueError, match="clipped_count_stddev"):
        DifferentialPrivacyServerSideAdaptiveClipping(FedAvg(), 1.0, 10)
    with pytest.raises(Misconfigured, match=r"noise_multiplier must be below 1, .* not 1: raise clipped_count_stddev"):
        AdaptiveClipping(1.0, 10)
    assert AdaptiveClipping(1.0, 10, clipped_count_stddev=2.0).mean_multiplier == pytest.approx(
        DifferentialPrivacyServerSideAdaptiveClipping(FedAvg(), 1.0, 10, clipped_count_stddev=2.0).noise_multiplier
    )


def test_it_says_what_it_is():
    assert isinstance(AdaptiveClipping(0.2, 3), AdaptiveServerDefence)
    assert isinstance(AdaptiveClipping(0.2, 3), WholeStateDefence)
    assert not isinstance(LocalDp(1.0, 1.0, 1.0), AdaptiveServerDefence)

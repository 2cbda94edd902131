"""P3's noise around every strategy: its size, and that it does not come back through the server's memory."""

from itertools import pairwise

import pytest
import torch
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict

from fluoroscope.defences.central_dp import CentralDp
from fluoroscope.defences.distance import distance
from fluoroscope.defences.metric_privacy import MetricPrivacy
from fluoroscope.federation.cohort import DISTANCE, NOISE, DefendedStrategy
from fluoroscope.federation.grid import InProcessGrid
from fluoroscope.federation.messages import to_arrays, to_state
from fluoroscope.federation.strategies import STRATEGIES, build_strategy, restore_server_state, server_state

CLIP, MULTIPLIER, CLIENTS = 5.0, 0.01, 4
WEIGHTS = 40_000


def moves():
    """Each client's way from whatever it is sent, the same in every round, longer than the clip."""
    rng = torch.Generator().manual_seed(1)
    shared = 0.03 * torch.randn(WEIGHTS, generator=rng)
    return [shared + 0.02 * torch.randn(WEIGHTS, generator=rng) for _ in range(CLIENTS)]


class Nodes(InProcessGrid):
    """Clients that go their way from where they are sent."""

    def __init__(self):
        ways = moves()

        def app(message, context):
            start = to_state(message.content["arrays"])["w"]
            state = {"w": start + ways[context.node_config["partition-id"]].reshape(start.shape)}
            metrics = MetricRecord({"num-examples": 10, "loss": 0.0})
            return Message(RecordDict({"arrays": to_arrays(state), "metrics": metrics}), reply_to=message)

        super().__init__(app, CLIENTS, lambda message: None)


def rounds(strategy, count=3, start=None, first=1):
    """The states that the server noise_aggregate, and what it told of each round."""
    grid, states, told = Nodes(), [start if start is not None else torch.zeros(200, 200)], []
    for server_round in range(first, first + count):
        arrays = to_arrays({"w": states[-1]})
        messages = strategy.configure_train(server_round, arrays, ConfigRecord(), grid)
        arrays, metrics = strategy.aggregate_train(server_round, grid.send_and_receive(messages))
        states.append(to_state(arrays)["w"].float())
        told.append(metrics)
    return states, told


def clipped():
    return [{"w": way.reshape(200, 200) * CLIP / way.norm()} for way in moves()]


def steps(states):
    return [after - before for before, after in pairwise(states)]


NO_NOISE = CentralDp(CLIP, 0.0)
D = distance(clipped())
DEFENCES = {
    "global": (CentralDp(CLIP, MULTIPLIER), CLIP * MULTIPLIER / CLIENTS),
    "inverse": (MetricPrivacy(CLIP, MULTIPLIER, "inverse"), CLIP * MULTIPLIER / (CLIENTS * D)),
    "direct": (MetricPrivacy(CLIP, MULTIPLIER, "direct"), CLIP * MULTIPLIER * D / CLIENTS),
}


@pytest.mark.parametrize("defence", DEFENCES)
@pytest.mark.parametrize("name", list(STRATEGIES))
def test_every_round_has_the_formula_s_noise_and_the_server_remembers_none_of_it(name, defence):
    """40,000 draws know a standard deviation to 0.35 %; four times that is allowed."""
    chosen, expected = DEFENCES[defence]
    plain, noisy = build_strategy(name, {}, CLIENTS), build_strategy(name, {}, CLIENTS)
    quiet, _ = rounds(DefendedStrategy(plain, NO_NOISE, 0))
    loud, told = rounds(DefendedStrategy(noisy, chosen, 0))
    for calm, moved in zip(steps(quiet), steps(loud), strict=True):
        # The clients move alike from any model, so all that differs between the steps is this round's noise.
        assert float((moved - calm).std()) == pytest.approx(expected, rel=0.015)
    assert all(metrics[NOISE] == pytest.approx(expected, rel=1e-4) for metrics in told)
    assert all(metrics[DISTANCE] == pytest.approx(D, rel=1e-4) for metrics in told)
    for key, value in server_state(noisy).items():
        torch.testing.assert_close(value.double(), server_state(plain)[key].double(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["fedavgm", "fedadam", "fedyogi"])
def test_noise_before_the_optimiser_enters_its_memory_and_is_asked_for(name):
    early = CentralDp(CLIP, MULTIPLIER, before_optimiser=True)
    plain, noisy = build_strategy(name, {}, CLIENTS), build_strategy(name, {}, CLIENTS)
    rounds(DefendedStrategy(plain, NO_NOISE, 0), 1)
    rounds(DefendedStrategy(noisy, early, 0), 1)
    slot = next(key for key in server_state(noisy) if not key.startswith("v_t"))
    difference = server_state(noisy)[slot] - server_state(plain)[slot]
    share = 1.0 if name == "fedavgm" else 0.1  # Adam's first moment takes (1 - beta_1) of it
    assert float(difference.std()) == pytest.approx(share * CLIP * MULTIPLIER / CLIENTS, rel=0.015)


def test_noise_before_a_plain_mean_is_noise_after_it():
    late, _ = rounds(DefendedStrategy(build_strategy("fedavg", {}, CLIENTS), CentralDp(CLIP, MULTIPLIER), 0))
    early = DefendedStrategy(build_strategy("fedavg", {}, CLIENTS), CentralDp(CLIP, MULTIPLIER, True), 0)
    for a, b in zip(rounds(early)[0], late, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_going_on_after_a_stop_changes_nothing_under_noise(name):
    def strategy():
        return DefendedStrategy(build_strategy(name, {}, CLIENTS), CentralDp(CLIP, MULTIPLIER), 0)

    whole, _ = rounds(strategy(), 2)
    first, second = strategy(), strategy()
    (_, middle), _ = rounds(first, 1)
    restore_server_state(second, server_state(first))
    (_, end), _ = rounds(second, 1, start=middle, first=2)
    assert torch.equal(end, whole[2])

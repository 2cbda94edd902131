"""Each strategy on an example that fits on paper; buffers averaged beside every one of them."""

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fluoroscope.errors import Misconfigured
from fluoroscope.federation.buffers import AveragedBuffers
from fluoroscope.federation.grid import InProcessGrid
from fluoroscope.federation.messages import to_arrays, to_state
from fluoroscope.federation.strategies import (
    STRATEGIES,
    build_strategy,
    restore_server_state,
    server_state,
)

W0 = torch.tensor([1.0, 2.0])
CLIENTS = [(1, torch.tensor([2.0, 0.0])), (2, torch.tensor([3.0, 3.0])), (1, torch.tensor([0.0, 6.0]))]
MEAN = torch.tensor([(2 + 6 + 0) / 4, (0 + 6 + 6) / 4])  # [2, 3]
DELTA = MEAN - W0  # [1, 1]


class Nodes(InProcessGrid):
    """Three nodes that answer with the given weights."""

    def __init__(self, answers):
        self.sent: list[Message] = []

        def app(message, context):
            self.sent.append(message)
            images, weights, mean, count = answers[context.node_config["partition-id"]]
            state = {"w": weights, "mean": mean, "count": count} if mean is not None else {"w": weights}
            metrics = MetricRecord({"num-examples": images, "loss": 0.0})
            return Message(RecordDict({"arrays": to_arrays(state), "metrics": metrics}), reply_to=message)

        super().__init__(app, len(answers), lambda message: None)


def two_rounds(strategy, buffers: bool = False):
    """The weights after each of two rounds in which the clients answer the same."""
    extra = [(torch.tensor([4.0 * i]), torch.tensor(i)) if buffers else (None, None) for i in (1, 2, 4)]
    grid = Nodes([(n, w, *e) for (n, w), e in zip(CLIENTS, extra, strict=True)])
    state = {"w": W0} | ({"mean": torch.zeros(1), "count": torch.tensor(0)} if buffers else {})
    arrays, seen = to_arrays(state), []
    for server_round in (1, 2):
        messages = strategy.configure_train(server_round, arrays, ConfigRecord(), grid)
        arrays, _ = strategy.aggregate_train(server_round, grid.send_and_receive(messages))
        seen.append(to_state(arrays))
    return seen, grid


def expected(name: str) -> list[torch.Tensor]:
    if name in ("fedavg", "fedprox", "fedopt"):
        return [MEAN, MEAN]
    if name == "fedmedian":
        return [torch.tensor([2.0, 3.0])] * 2
    if name == "fedavgm":  # g = w - mean; m = beta m + g; w = w - m, with beta = 0.9
        first = W0 + DELTA
        momentum = 0.9 * (W0 - MEAN) + (first - MEAN)
        return [first, first - momentum]
    w, m, v, out = W0.double(), 0.0, 0.0, []
    for t in (1, 2):
        delta = MEAN.double() - w
        m = 0.9 * m + 0.1 * delta
        if name == "fedadam":  # bias correction as Flower ships it: powers of t + 1
            v = 0.99 * v + 0.01 * delta**2
            eta = 0.1 * np.sqrt(1 - 0.99 ** (t + 1)) / (1 - 0.9 ** (t + 1))
        else:  # Yogi: v moves by the sign of v - delta^2, no bias correction
            v = v - 0.01 * delta**2 * torch.sign(v - delta**2)
            eta = 0.01
        w = w + eta * m / (v.sqrt() + 1e-3)
        out.append(w.float())
    return out


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_matches_its_published_formula(name):
    seen, _ = two_rounds(build_strategy(name, {}, clients=3))
    for got, want in zip(seen, expected(name), strict=True):
        torch.testing.assert_close(got["w"].float(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_buffers_are_averaged_and_types_kept(name):
    plain, _ = two_rounds(build_strategy(name, {}, clients=3))
    seen, _ = two_rounds(AveragedBuffers(build_strategy(name, {}, clients=3), frozenset({"mean", "count"})), True)
    for with_buffers, without in zip(seen, plain, strict=True):
        assert list(with_buffers) == ["w", "mean", "count"]
        torch.testing.assert_close(with_buffers["w"], without["w"].float())
        assert with_buffers["w"].dtype == torch.float32
        torch.testing.assert_close(with_buffers["mean"], torch.tensor([(4 + 16 + 16) / 4.0]))
        assert torch.equal(with_buffers["count"], torch.tensor(2))  # (1 + 2*2 + 4) / 4 = 2.25, still a count


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_going_on_after_a_stop_changes_nothing(name):
    whole, _ = two_rounds(build_strategy(name, {}, clients=3))
    first, second = build_strategy(name, {}, clients=3), build_strategy(name, {}, clients=3)
    grid = Nodes([(n, w, None, None) for n, w in CLIENTS])
    messages = first.configure_train(1, to_arrays({"w": W0}), ConfigRecord(), grid)
    arrays, _ = first.aggregate_train(1, grid.send_and_receive(messages))
    restore_server_state(second, server_state(first))
    messages = second.configure_train(2, arrays, ConfigRecord(), grid)
    arrays, _ = second.aggregate_train(2, grid.send_and_receive(messages))
    assert torch.equal(to_state(arrays)["w"], whole[1]["w"])


def test_fedprox_sends_its_mu():
    _, grid = two_rounds(build_strategy("fedprox", {"proximal_mu": 0.3}, clients=3))
    assert all(message.content["config"]["proximal-mu"] == 0.3 for message in grid.sent)


def test_an_unknown_setting_is_named():
    with pytest.raises(Misconfigured, match=r"fedavgm has no setting 'momentum'.*server_momentum"):
        build_strategy("fedavgm", {"momentum": 0.9}, clients=3)
    with pytest.raises(Misconfigured, match="did you mean 'fedyogi'"):
        build_strategy("fedyog", {}, clients=3)


def test_clients_do_not_share_a_record():
    """Strategies put one RecordDict into every message; what one client writes there stays with it."""

    def app(message, context):
        message.content["config"]["mark"] = context.node_id
        return Message(RecordDict({"arrays": ArrayRecord()}), reply_to=message)

    grid = InProcessGrid(app, 2, lambda message: None)
    shared = RecordDict({"config": ConfigRecord()})
    messages = [Message(shared, node, "train") for node in grid.get_node_ids()]
    grid.push_messages(messages)
    assert [message.content["config"]["mark"] for message in messages] == list(grid.get_node_ids())
    assert "mark" not in shared["config"]

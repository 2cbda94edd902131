"""Recorders around anybody's strategy and app: what is on disk is what travelled."""

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedMedian,
    FedProx,
    Krum,
)

from fluoroscope.errors import BadInput
from fluoroscope.federation.grid import InProcessGrid
from fluoroscope.integrations.flower import record, record_mod
from fluoroscope.integrations.recorded import RecordedUpdates

from ...federation.hostile import ANY
from ...federation.hostile import TRAINING as IN_TRAINING
from .conftest import TRAINING, module, stock_app


def start(strategy, rounds=2, mods=(), clients=3):
    grid = InProcessGrid(stock_app(mods), clients, lambda _: None)
    return strategy.start(grid, ArrayRecord(module().state_dict()), num_rounds=rounds)


def small(kind, **settings):
    return kind(min_train_nodes=3, min_available_nodes=3, min_evaluate_nodes=3, **settings)


STRATEGIES = {
    "FedAvg": lambda: small(FedAvg),
    "FedMedian": lambda: small(FedMedian),
    "FedProx": lambda: small(FedProx, proximal_mu=0.1),
    "FedAdam": lambda: small(FedAdam),
    "Krum": lambda: small(Krum, num_malicious_nodes=0),
    "DP": lambda: DifferentialPrivacyServerSideFixedClipping(small(FedAvg), 0.0, 1e9, 3),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_any_strategy_is_recorded_and_gives_the_same_model(tmp_path, name):
    result = start(record(STRATEGIES[name](), tmp_path, training=TRAINING))
    plain = start(STRATEGIES[name]())
    for key, value in plain.arrays.to_torch_state_dict().items():
        torch.testing.assert_close(result.arrays.to_torch_state_dict()[key], value)
    updates = RecordedUpdates(tmp_path)
    assert updates.rounds() == [1, 2]
    assert updates.clients(1) == ["node-2", "node-3", "node-4"]
    before, after = updates.load(1, "node-2")
    for key, value in module().state_dict().items():
        assert torch.equal(before[key], value)
        assert torch.equal(after[key], value + 1)
    assert updates.about(2, "node-3").training == TRAINING
    assert len(list(tmp_path.glob("models/*"))) == 2


def test_a_start_of_ones_own_is_kept_and_the_strategy_is_not_changed(tmp_path):
    class Own(FedAvg):
        started = 0

        def start(self, *args, **kwargs):
            self.started += 1
            return super().start(*args, **kwargs)

    strategy = small(Own)
    recorded = record(strategy, tmp_path)
    start(recorded)
    assert (recorded.started, strategy.started) == (1, 0)
    assert "aggregate_train" not in vars(strategy)
    assert RecordedUpdates(tmp_path).rounds() == [1, 2]


def test_a_folder_of_another_run_is_refused(tmp_path):
    start(record(small(FedAvg), tmp_path), rounds=1)
    with pytest.raises(BadInput, match="another run"):
        record(small(FedAvg), tmp_path)


def test_the_mod_writes_the_same_at_the_client(tmp_path):
    server, client = tmp_path / "server", tmp_path / "client"
    start(record(small(FedAvg), server), mods=[record_mod(client, training=lambda context: TRAINING)])
    there, here = RecordedUpdates(server), RecordedUpdates(client)
    assert here.clients(1) == ["client-0", "client-1", "client-2"]
    for number in (1, 2):
        for i in range(3):
            for one, other in zip(there.load(number, f"node-{i + 2}"), here.load(number, f"client-{i}"), strict=True):
                assert one.keys() == other.keys()
                assert all(torch.equal(one[k], other[k]) for k in one)
    assert here.about(1, "client-0").training == TRAINING


def test_a_client_may_name_itself(tmp_path):
    start(small(FedAvg), 1, [record_mod(tmp_path, client=lambda context: f"site {context.node_id}")])
    assert RecordedUpdates(tmp_path).clients(1) == ["site 2", "site 3", "site 4"]


@pytest.mark.parametrize("name", {**ANY, **IN_TRAINING})
def test_what_a_hostile_node_sends_is_recorded_as_an_update_or_not_at_all(tmp_path, name):
    """The recorder neither falls over it nor keeps the strategy from seeing it; the others' updates are kept."""
    seen = []

    class Watching(FedAvg):
        def aggregate_train(self, server_round, replies):
            seen.extend(replies)
            return None, None

    grid = InProcessGrid(stock_app(), 3, lambda _: None)
    recorded = record(small(Watching), tmp_path)
    sent = ArrayRecord(module().state_dict())
    honest = list(grid.send_and_receive(recorded.configure_train(1, sent, ConfigRecord({"server-round": 1}), grid)))
    answer = {**ANY, **IN_TRAINING}[name](honest[0])
    replies = [*(answer if isinstance(answer, list) else [answer]), *honest[1:]]
    recorded.aggregate_train(1, replies)
    assert len(seen) == len(replies)
    updates = RecordedUpdates(tmp_path)
    assert {"node-4"} <= set(updates.clients(1)) <= {"node-2", "node-3", "node-4"}
    for client in updates.clients(1):
        before, after = updates.load(1, client)
        assert after.keys() <= before.keys()
        assert all(value.shape == before[key].shape and value.isfinite().all() for key, value in after.items())

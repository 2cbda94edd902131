"""One round under Flower's SecAgg+: the server learns the clients' weighted mean and nothing else.

Flower has SecAgg+ for its older API only, so a round is a workflow of that API, on the in-process grid. What a server
sends may differ from client to client, architecture included: the protocol does not forbid it, and P2's attack is that.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.client import Client, NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import (
    FitIns,
    NDArrays,
    Parameters,
    Scalar,
    bytes_to_ndarray,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS
from flwr.common.secure_aggregation.secaggplus_constants import Key as SecAggKey
from flwr.server import LegacyContext
from flwr.server.client_proxy import ClientProxy
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from torch import Tensor

from fluoroscope.defences import NO_DEFENCE, Chain
from fluoroscope.errors import Misconfigured, Refused, Unsupported
from fluoroscope.federation.client_round import ClientRound, client_round
from fluoroscope.federation.grid import RUN_ID, SERVER_NODE, InProcessGrid
from fluoroscope.federation.guard import REFUSED, Mod
from fluoroscope.rng import derive, generator, seeded_globals
from fluoroscope.types import LocalTraining, Network, PrivateBatch, State


@dataclass(frozen=True)
class SecAgg:
    """The protocol's settings. The server announces them, so a malicious one chooses them; these are Flower's own."""

    max_weight: float = 1000.0
    """A client's parameters are weighed by its images over this."""
    clipping_range: float = 8.0
    """Weighed parameters beyond it are cut."""
    quantisation: int = 2**22
    """Steps of the whole range: with Flower's settings, one is 3.8e-6."""
    modulus: int = 2**32

    @property
    def step(self) -> float:
        return 2 * self.clipping_range / self.quantisation


@dataclass(frozen=True, eq=False)
class Participant:
    """A client with its images, its training and its defence."""

    name: str
    batch: PrivateBatch
    training: LocalTraining
    defence: Chain = NO_DEFENCE

    def round(self, network: Network, state: State, server_round: int, seed: int) -> ClientRound:
        """What it does with a model that it is sent."""
        rng = generator(seed, "client", self.name, "round", server_round)
        return client_round(
            network, state, self.batch, self.training, rng, self.defence, server_round=server_round, client=self.name
        )


@dataclass(frozen=True, eq=False)
class Sent:
    """The model that the server sends to one client."""

    network: Network
    state: State


@dataclass(frozen=True, eq=False)
class SecureSum:
    """What the server holds after the round."""

    mean: dict[str, Tensor]
    """The clients' parameters and buffers, weighed by their images; float64."""
    masked: dict[str, tuple[np.ndarray[Any, Any], ...]]
    """Of each client, the message that carried its parameters, as the server received it."""


def secure_round(
    participants: Sequence[Participant],
    sent: Sequence[Sent],
    server_round: int,
    seed: int,
    settings: SecAgg | None = None,
    mods: Sequence[Mod] = (),
) -> SecureSum:
    """Train all participants on what they were sent and sum the results securely.

    `mods` are the clients' own (Flower client mods): they see a model before it is trained. With `consistency_mod` a
    server that sends different models gets noise.
    """
    settings = settings or SecAgg()
    if len(participants) < 3:
        raise Misconfigured(
            f"secure aggregation hides a client among others: it needs 3 or more, not {len(participants)}."
        )
    shapes = [{name: tuple(value.shape) for name, value in each.state.items()} for each in sent]
    if any(shape != shapes[0] for shape in shapes):
        raise Unsupported("the sum is taken array by array: all clients must be sent arrays of the same shapes.")
    logging.getLogger("flwr").setLevel(logging.CRITICAL)  # what went wrong is raised below
    names = list(sent[0].state)
    networks = {each.network.key: each.network for each in sent}
    masked: dict[str, tuple[np.ndarray[Any, Any], ...]] = {}

    refused: list[str] = []

    def on_reply(reply: Message) -> None:
        if reply.has_error():
            if reply.error.code == REFUSED:
                refused.append(participants[reply.metadata.src_node_id - SERVER_NODE - 1].name)
            return
        record = reply.content.config_records.get(RECORD_KEY_CONFIGS, ConfigRecord())
        if SecAggKey.MASKED_PARAMETERS in record:
            carried: Any = record[SecAggKey.MASKED_PARAMETERS]
            # The first array is the client's weight.
            arrays = tuple(bytes_to_ndarray(each) for each in carried[1:])
            masked[participants[reply.metadata.src_node_id - SERVER_NODE - 1].name] = arrays

    def client_fn(context: Context) -> Client:
        participant = participants[int(context.node_config["partition-id"])]
        return _Trainer(participant, networks, names, server_round, seed).to_client()

    app = ClientApp(client_fn=client_fn, mods=[*mods, secaggplus_mod])
    grid = InProcessGrid(app, len(participants), on_reply)
    strategy = _SendEach(grid, participants, sent)
    base = Context(RUN_ID, SERVER_NODE, {}, RecordDict(), {})
    context = LegacyContext(context=base, strategy=strategy)
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({WorkflowKey.CURRENT_ROUND: server_round})
    context.state.array_records[MAIN_PARAMS_RECORD] = ArrayRecord([])
    workflow = SecAggPlusWorkflow(
        1.0,
        (len(participants) // 2 + 1) / len(participants),  # a majority: no two groups can be unmasked apart
        max_weight=settings.max_weight,
        clipping_range=settings.clipping_range,
        quantization_range=settings.quantisation,
        modulus_range=settings.modulus,
    )
    with seeded_globals(derive(seed, "secure aggregation", server_round)):  # its rounding is stochastic
        workflow(grid, context)
    if refused:
        raise Refused(
            f"{', '.join(refused)} refused the model of round {server_round}: nothing was trained, sent or summed."
        )
    if strategy.received is None:
        raise Unsupported("the secure aggregation did not complete: too few clients answered.")
    mean = dict(zip(names, map(torch.from_numpy, strategy.received), strict=True))
    return SecureSum(mean, masked)


class _Trainer(NumPyClient):
    """Builds what it is sent and trains it: the server's word is the architecture."""

    def __init__(
        self, participant: Participant, networks: Mapping[str, Network], names: list[str], server_round: int, seed: int
    ) -> None:
        self._participant, self._networks, self._names = participant, networks, names
        self._round, self._seed = server_round, seed

    def fit(self, parameters: NDArrays, config: dict[str, Scalar]) -> tuple[NDArrays, int, dict[str, Scalar]]:
        network = self._networks[str(config["network"])]
        state = {name: torch.from_numpy(value) for name, value in zip(self._names, parameters, strict=True)}
        sent = self._participant.round(network, state, self._round, self._seed).sent
        # What a defence keeps at home is sent as it was received: the sum is taken array by array.
        after = {**state, **sent}
        return [after[name].numpy() for name in self._names], len(self._participant.batch), {}


class _SendEach(FedAvg):
    """Sends each client its own model, and keeps the mean."""

    def __init__(self, grid: InProcessGrid, participants: Sequence[Participant], sent: Sequence[Sent]) -> None:
        super().__init__()
        self._grid, self._participants, self._sent = grid, participants, sent
        self.received: NDArrays | None = None

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: object
    ) -> list[tuple[ClientProxy, FitIns]]:
        return [
            (
                GridClientProxy(node, self._grid, RUN_ID),
                FitIns(
                    ndarrays_to_parameters([value.numpy() for value in each.state.values()]),
                    {"network": each.network.key},
                ),
            )
            for node, each in zip(self._grid.get_node_ids(), self._sent, strict=True)
        ]

    def aggregate_fit(
        self, server_round: int, results: list[tuple[ClientProxy, Any]], failures: list[Any]
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        if len(results) == len(self._participants):  # every result is the same mean
            self.received = parameters_to_ndarrays(results[0][1].parameters)
        return None, {}

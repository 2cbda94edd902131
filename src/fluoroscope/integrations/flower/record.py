"""Recorders for anybody's Flower apps: every client's update beside the model that it was sent, on disk.

strategy = record(FedAvg(), "updates")              # around the strategy of a ServerApp
app = ClientApp(mods=[record_mod("updates")])       # or at each client
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterable
from logging import WARNING
from pathlib import Path
from typing import NamedTuple, TypeVar

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from torch import Tensor

from fluoroscope.errors import BadInput
from fluoroscope.federation.guard import Mod, Next
from fluoroscope.federation.messages import is_train
from fluoroscope.federation.replies import why_no_update
from fluoroscope.integrations.flower.reading import ARRAYS, model_key, round_of, state_of
from fluoroscope.integrations.recorded import RecordedUpdates
from fluoroscope.types import LocalTraining, Network

S = TypeVar("S", bound=Strategy)


def record(
    strategy: S, folder: Path | str, *, network: Network | None = None, training: LocalTraining | None = None
) -> S:
    """The same strategy, which writes down every update before it aggregates.

    Args:
        strategy: any strategy; it is not changed, and keeps its own `start`.
        folder: where the updates go; a new one for every run.
        network: what is trained, where it is known: an attack on the records will need it.
        training: how clients train, where it is known.

    Returns:
        A copy of the strategy, to be started in its place.

    Raises:
        BadInput: the folder holds updates of another run.

    Example:
        >>> import tempfile
        >>> from flwr.serverapp.strategy import FedAvg
        >>> type(record(FedAvg(), tempfile.mkdtemp())).__name__
        'FedAvg'
    """
    updates = RecordedUpdates(folder)
    if updates.rounds():
        raise BadInput(f"{folder} holds the updates of another run: choose another folder, or delete it.")
    recorded, sent_out = copy.copy(strategy), dict[int, _Sent]()

    def configure_train(server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        messages = list(type(strategy).configure_train(recorded, server_round, arrays, config, grid))
        sent_out.clear()
        sent_out.update(_models(messages))
        return messages

    def aggregate_train(
        server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        answers = list(replies)  # a generator can be read once
        times = Counter(reply.metadata.src_node_id for reply in answers)
        for reply in answers:  # before aggregating: FedMedian takes the arrays out of the replies
            node = reply.metadata.src_node_id
            sent, arrays = sent_out.get(node), _arrays(reply)
            reason = "answered more than once" if times[node] > 1 else _why_not(arrays, sent)
            if reason or sent is None or arrays is None:  # the strategy decides about it, as it would without us
                log(WARNING, "fluoroscope: node %s %s; of round %s it has no record", node, reason, server_round)
            else:
                updates.write(f"node-{node}", server_round, sent.state, state_of(arrays), training, network)
        return type(strategy).aggregate_train(recorded, server_round, answers)

    # On the copy itself: whatever `start` it has, it calls these two.
    vars(recorded).update(configure_train=configure_train, aggregate_train=aggregate_train)
    return recorded


def record_mod(
    folder: Path | str,
    *,
    client: Callable[[Context], str] | None = None,
    network: Network | None = None,
    training: LocalTraining | Callable[[Context], LocalTraining] | None = None,
) -> Mod:
    """A mod that writes down every update of this client before it leaves.

    Args:
        folder: where the updates go; clients on one machine can share it.
        client: the client's name; otherwise by its `partition-id`, or by its node's number.
        network: what is trained, where it is known.
        training: how this client trains, where it is known; it may depend on the node.
    """
    updates = RecordedUpdates(folder)

    def mod(message: Message, context: Context, call_next: Next) -> Message:
        if not is_train(message):
            return call_next(message, context)
        before = _model(message)  # now: the app may change what it is given
        number = round_of(message)
        reply = call_next(message, context)
        after = _model(reply)
        if before is None or after is None:
            log(WARNING, "fluoroscope: no update to record in round %s", number)
            return reply
        name = _name(context) if client is None else client(context)
        known = training(context) if callable(training) else training
        updates.write(name, number, before, after, known, network)
        return reply

    return mod


class _Sent(NamedTuple):
    """The model that a node was sent, as it travelled and in tensors."""

    arrays: ArrayRecord
    state: dict[str, Tensor]


def _models(messages: Iterable[Message]) -> dict[int, _Sent]:
    """By node. Strategies put one record in every message: it is read once."""
    read: dict[int, _Sent | None] = {}
    found = {}
    for message in messages:
        arrays, state = _arrays(message), None
        if id(arrays) not in read:
            state = _model(message)
            read[id(arrays)] = None if arrays is None or state is None else _Sent(arrays, state)
        if (model := read[id(arrays)]) is not None:
            found[message.metadata.dst_node_id] = model
    return found


def _arrays(message: Message) -> ArrayRecord | None:
    """The record of the model in a message: the usual one where there are several."""
    if not message.has_content():
        return None
    usual = message.content.array_records.get(ARRAYS)
    try:
        return usual or message.content.array_records[model_key(message.content)]
    except BadInput:
        return None


def _why_not(arrays: ArrayRecord | None, sent: _Sent | None) -> str:
    """Why there is nothing to record of a node; empty where there is."""
    if sent is None:
        return "was not asked"
    return "sent no model" if arrays is None else why_no_update(arrays, sent.arrays) or ""


def _model(message: Message) -> dict[str, Tensor] | None:
    """The model in a message, in tensors."""
    arrays = _arrays(message)
    try:
        return None if arrays is None else state_of(arrays)
    except BadInput:
        return None


def _name(context: Context) -> str:
    number = context.node_config.get("partition-id")
    return f"node-{context.node_id}" if number is None else f"client-{number}"

"""The hospital's side: a Flower ClientApp that trains and evaluates on its own share."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from fluoroscope.defences.homomorphic import public_context
from fluoroscope.federation.encrypted import SEALED, received_parts, sealed_record
from fluoroscope.federation.evaluation import evaluate
from fluoroscope.federation.local_training import local_training
from fluoroscope.federation.messages import to_arrays, to_state
from fluoroscope.federation.plan import Plan
from fluoroscope.federation.task import Task, load_task
from fluoroscope.federation.withheld import merge_local_state, save_local_state
from fluoroscope.scores.utility import Utility
from fluoroscope.types import State, UpdateRecord

KEYS = tuple(Utility.__annotations__)


def client_app(plan_of: Callable[[Context], Plan], device: str = "cpu", threads: int | None = None) -> ClientApp:
    """The app of every client; which one it is stands in the node's configuration as `partition-id`.

    `plan_of` gives the plan: a simulation holds it already, a deployed node reads it from the run's configuration.
    `threads` are the CPU threads of one client: sums depend on their number, so engines that agree on it agree.
    """
    app = ClientApp()

    def _task(context: Context) -> Task:
        if threads is not None and torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        return load_task(plan_of(context))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        task, client = _task(context), _client(context)
        config: ConfigRecord = message.content["config"]  # type: ignore[assignment]
        before = _opened(task, message, merge_local_state(context, _received(message, device)))
        trained = train_and_defend(task, client, config, before)
        save_local_state(context, trained.after, [*trained.sent, *trained.sealed])
        metrics = MetricRecord({"num-examples": len(task.clients[client].train), "loss": trained.loss})
        records: dict[str, object] = {"arrays": to_arrays(trained.sent), "metrics": metrics}
        if task.defence.encryption is not None:
            records[SEALED] = sealed_record(trained.ciphertexts, public_context(task.defence.encryption.key))
        return _reply(message, context, records)

    @app.evaluate()
    def validate(message: Message, context: Context) -> Message:
        task, client = _task(context), _client(context)
        held = task.validation_batch(client)
        if not len(held):  # nothing to say: counts for nothing in a mean
            return _reply(message, context, {"metrics": MetricRecord(dict.fromkeys(("num-examples", *KEYS), 0.0))})
        state = _opened(task, message, merge_local_state(context, _received(message, device)))
        scored = evaluate(task.model, state, held)
        metrics = MetricRecord({"num-examples": scored["images"], **{k: float(v) for k, v in scored.items()}})  # type: ignore[arg-type]
        return _reply(message, context, {"metrics": metrics})

    return app


@dataclass(frozen=True, eq=False)
class Left:
    """A client's round, and what of it leaves."""

    sent: dict[str, Tensor]
    after: dict[str, Tensor]
    """Where training ended; this stays."""
    loss: float
    sealed: tuple[str, ...] = ()
    ciphertexts: tuple[bytes, ...] = ()
    """The change of the sealed names."""


def train_and_defend(task: Task, client: int, config: ConfigRecord, before: dict[str, Tensor]) -> Left:
    """Train, then let the plan's defences have the update."""
    training, rng = task.local_training(client, config), task.training_rng(client, config)
    data, around = task.train_batch(client), task.defence.training
    if around is None:
        trained = local_training(task.model, before, data, training, rng)
        after, loss = trained.state, trained.loss
    else:
        after, loss = around.train(task.model, before, data, training, rng)
    if not task.defence.parts:
        return Left(after, after, loss)
    part = partial(split_state, task.buffer_names)
    record = UpdateRecord(
        round=int(config["server-round"]),  # type: ignore[arg-type]  # Flower sends an int
        cohort=(task.clients[client].name,),
        architecture=task.architecture,
        training=training,
        state_before=part(before)[0],
        state_after=part(after)[0],
        buffers_before=part(before)[1],
        buffers_after=part(after)[1],
    )
    rng, encryption = task.defence_rng(client, config), task.defence.encryption
    record = task.defence.before_encryption().send(record, rng)
    if encryption is None:
        return Left({**record.state_after, **(record.buffers_after or {})}, after, loss)
    weight = len(data) / sum(len(split.train) for split in task.clients)
    sealed, ciphertexts = tuple(encryption.sealed(record)), tuple(encryption.encrypt(record, weight))
    left = encryption.send(record, rng)
    return Left({**left.state_after, **(left.buffers_after or {})}, after, loss, sealed, ciphertexts)


def _opened(task: Task, message: Message, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The model that the round begins with: a sealed sum is opened with the clients' key."""
    encryption, ciphertexts = task.defence.encryption, received_parts(message)
    if encryption is None or not ciphertexts:
        return state
    return encryption.decrypt(ciphertexts, state, task.sealed_names)


def split_state(buffers: frozenset[str], state: State) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Parameters and buffers."""
    parameters = {name: value for name, value in state.items() if name not in buffers}
    return parameters, {name: value for name, value in state.items() if name in buffers}


def _client(context: Context) -> int:
    return int(context.node_config["partition-id"])


def _received(message: Message, device: str) -> dict[str, torch.Tensor]:
    arrays = message.content.array_records["arrays"]
    return {name: value.to(device) for name, value in to_state(arrays).items()}


def _reply(message: Message, context: Context, records: dict[str, object]) -> Message:
    # A config record, not a metric: strategies average metrics, and a mean of client numbers means nothing.
    sender = ConfigRecord({"client": _client(context)})
    return Message(RecordDict({**records, "sender": sender}), reply_to=message)  # type: ignore[dict-item]

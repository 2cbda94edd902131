"""The hospital's side: a Flower ClientApp that trains and evaluates on its own share."""

from collections.abc import Callable

import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from fluoroscope.errors import Misconfigured
from fluoroscope.federation.client_round import ClientRound, client_round, with_local_state
from fluoroscope.federation.encrypted import SEALED, received_parts, sealed_record
from fluoroscope.federation.evaluation import evaluate
from fluoroscope.federation.messages import to_arrays, to_state
from fluoroscope.federation.own_images import holdings_reply, is_own, node_task
from fluoroscope.federation.plan import Plan
from fluoroscope.federation.task import Task, load_task
from fluoroscope.federation.withheld import local_state, save_local_state
from fluoroscope.scores.utility import Utility
from fluoroscope.types import State

SHARES = "shares"
"""The key under which the server says who holds what."""
KEYS = tuple(Utility.__annotations__)


def client_app(plan_of: Callable[[Context], Plan], device: str = "cpu", threads: int | None = None) -> ClientApp:
    """The app of every client; which one it is stands in the node's configuration: as `partition-id`, or as `site`
    where the images are the nodes' own.

    `plan_of` gives the plan: a simulation holds it already, a deployed node reads it from the run's configuration.
    `threads` are the CPU threads of one client: sums depend on their number, so engines that agree on it agree.
    """
    app = ClientApp()

    def _own(context: Context) -> tuple[Task, int]:
        if threads is not None and torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        plan = plan_of(context)
        if is_own(plan):
            return node_task(plan, context.node_config)
        return load_task(plan), int(context.node_config["partition-id"])

    @app.query("holdings")
    def holdings(message: Message, context: Context) -> Message:
        return holdings_reply(message, plan_of(context), context.node_config)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        task, client = _own(context)
        config: ConfigRecord = message.content["config"]  # type: ignore[assignment]
        _check_shares(task, config)
        before = _opened(task, message, _received(message, device))
        done = planned_round(task, client, config, before, local_state(context))
        save_local_state(context, done.local_state)
        metrics = MetricRecord({"num-examples": len(task.clients[client].train), "loss": done.loss})
        records: dict[str, object] = {"arrays": to_arrays(done.sent), "metrics": metrics}
        if task.defence.encryption is not None:
            records[SEALED] = sealed_record(done.ciphertexts, task.defence.encryption.public_context())
        return _reply(message, client, records)

    @app.evaluate()
    def validate(message: Message, context: Context) -> Message:
        task, client = _own(context)
        held = task.validation_batch(client)
        if not len(held):  # nothing to say: counts for nothing in a mean
            return _reply(message, client, {"metrics": MetricRecord(dict.fromkeys(("num-examples", *KEYS), 0.0))})
        state = with_local_state(_opened(task, message, _received(message, device)), local_state(context))
        scored = evaluate(task.model, state, held, task.normalisation)
        metrics = MetricRecord({"num-examples": scored["images"], **{k: float(v) for k, v in scored.items()}})  # type: ignore[arg-type]
        return _reply(message, client, {"metrics": metrics})

    return app


def planned_round(
    task: Task, client: int, config: ConfigRecord, state: State, local_state: State | None = None
) -> ClientRound:
    """The round that the plan and the server's message tell this client to do."""
    split, share = task.clients[client], len(task.clients[client].train) / sum(len(c.train) for c in task.clients)
    return client_round(
        task.network,
        state,
        task.train_batch(client),
        task.local_training(client, config),
        task.training_rng(client, config),
        task.defence,
        local_state=local_state,
        defence_rng=task.defence_rng(client, config),
        server_round=int(config["server-round"]),  # type: ignore[arg-type]  # Flower sends an int
        client=split.name,
        share=share,
    )


def _opened(task: Task, message: Message, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The model that the round begins with: a sealed sum is opened with the clients' key."""
    encryption, ciphertexts = task.defence.encryption, received_parts(message)
    if encryption is None or not ciphertexts:
        return state
    return encryption.decrypt(ciphertexts, state, task.sealed_names)


def _check_shares(task: Task, config: ConfigRecord) -> None:
    """A node that has other images than the server would apply the split to its own once more, and say nothing."""
    if config.get(SHARES, task.shares) != task.shares:
        raise Misconfigured(
            "this node does not have the images that the server splits among the clients: where every node has its "
            "own, set partition.name = 'own' (docs/flower.md)."
        )


def _received(message: Message, device: str) -> dict[str, torch.Tensor]:
    arrays = message.content.array_records["arrays"]
    return {name: value.to(device) for name, value in to_state(arrays).items()}


def _reply(message: Message, client: int, records: dict[str, object]) -> Message:
    # A config record, not a metric: strategies average metrics, and a mean of client numbers means nothing.
    sender = ConfigRecord({"client": client})
    return Message(RecordDict({**records, "sender": sender}), reply_to=message)  # type: ignore[dict-item]

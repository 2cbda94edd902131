"""The hospital's side: a Flower ClientApp that trains and evaluates on its own share."""

from collections.abc import Callable

import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fluoroscope.federation.evaluation import evaluate
from fluoroscope.federation.local_training import local_training
from fluoroscope.federation.messages import to_arrays, to_state
from fluoroscope.federation.plan import Plan
from fluoroscope.federation.task import Task, load_task
from fluoroscope.scores.utility import Utility

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
        trained = local_training(
            task.model,
            _received(message, device),
            task.train_batch(client),
            task.local_training(client, config),
            task.training_rng(client, config),
        )
        metrics = MetricRecord({"num-examples": len(task.clients[client].train), "loss": trained.loss})
        return _reply(message, context, {"arrays": to_arrays(trained.state), "metrics": metrics})

    @app.evaluate()
    def validate(message: Message, context: Context) -> Message:
        task, client = _task(context), _client(context)
        held = task.validation_batch(client)
        if not len(held):  # nothing to say: counts for nothing in a mean
            return _reply(message, context, {"metrics": MetricRecord(dict.fromkeys(("num-examples", *KEYS), 0.0))})
        scored = evaluate(task.model, _received(message, device), held)
        metrics = MetricRecord({"num-examples": scored["images"], **{k: float(v) for k, v in scored.items()}})  # type: ignore[arg-type]
        return _reply(message, context, {"metrics": metrics})

    return app


def _client(context: Context) -> int:
    return int(context.node_config["partition-id"])


def _received(message: Message, device: str) -> dict[str, torch.Tensor]:
    arrays = message.content.array_records["arrays"]
    return {name: value.to(device) for name, value in to_state(arrays).items()}


def _reply(message: Message, context: Context, records: dict[str, object]) -> Message:
    # A config record, not a metric: strategies average metrics, and a mean of client numbers means nothing.
    sender = ConfigRecord({"client": _client(context)})
    return Message(RecordDict({**records, "sender": sender}), reply_to=message)  # type: ignore[dict-item]

"""A strategy that writes down what passes through the server, and can go on where a run was stopped."""

import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from torch import Tensor

from fluoroscope.errors import BadInput
from fluoroscope.federation.cohort import DISTANCE, NOISE
from fluoroscope.federation.manifest import ClientEntry, CohortEntry, RoundManifest
from fluoroscope.federation.messages import to_state
from fluoroscope.federation.privacy import claimed
from fluoroscope.federation.progress import Progress
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.strategies import server_state
from fluoroscope.federation.task import Task
from fluoroscope.federation.wrapper import Wrapper
from fluoroscope.rng import derive, seeded_globals


class Recorder(Wrapper):
    """Around any strategy. Flower counts rounds from 1 in every start; `done` rounds lie behind this one."""

    def __init__(self, inner: Strategy, task: Task, store: RecordStore, done: int, progress: Progress) -> None:
        super().__init__(inner)
        self.task = task
        self.store = store
        self.done = done
        self.progress = progress
        self._config, self._asked = ConfigRecord(), 0
        self._began = 0.0
        self._clients: dict[str, ClientEntry] = {}
        self._cohort: CohortEntry | None = None
        self._took_part = Counter(name for r in range(1, done + 1) for name in store.manifest(r).clients)
        self._files: dict[str, Future[str]] = {}
        # Beside the aggregation, which leaves a core free: recording then costs next to nothing.
        self._writer = ThreadPoolExecutor(max_workers=1)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        this = server_round + self.done
        self._began, self._clients, self._files = time.monotonic(), {}, {}
        # Flower samples clients with the global generator.
        with seeded_globals(derive(self.task.plan.seed, "sampling", this)):
            messages = list(self.inner.configure_train(this, arrays, config, grid))
        self._config, self._asked = config, len(messages)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        this = server_round + self.done
        # In the order of the clients, whoever answered first: float sums depend on it.
        answers = sorted(self._checked(replies, this), key=_sender)
        for reply in answers:  # before delegating: FedMedian takes the arrays out of the replies
            self._record(this, reply)
        with seeded_globals(derive(self.task.plan.seed, "aggregation", this)):
            arrays, metrics = self.inner.aggregate_train(this, answers)
        if arrays is None:
            raise BadInput(f"round {this}: the strategy made nothing of {len(answers)} replies.")
        self._write(this, "global.safetensors", to_state(arrays))
        self._cohort = _cohort(metrics)
        return arrays, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        this, plan = server_round + self.done, self.task.plan
        due = this % plan.evaluate_every == 0
        if not due or not any(client.validation for client in self.task.clients):
            self._asked = 0
            return []
        messages = list(self.inner.configure_evaluate(this, arrays, config, grid))
        self._asked = len(messages)
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        this = server_round + self.done
        answers = sorted(self._checked(replies, this), key=_sender)
        clients = self.task.clients
        held = [reply for reply in answers if clients[_sender(reply)].validation]
        self._finish(this, {clients[_sender(reply)].name: _utility(reply) for reply in held})
        return self.inner.aggregate_evaluate(this, answers)

    def write_initial(self, state: dict[str, Tensor]) -> None:
        """Round 0: where the federation starts."""
        self._began = time.monotonic()
        self._write(0, "global.safetensors", state)
        self._finish(0, {})

    def _record(self, this: int, reply: Message) -> None:
        client, plan = _sender(reply), self.task.plan.records
        name = self.task.clients[client].name
        kept = plan.keeps_round(this) and plan.keeps_client(name)
        if kept:
            self._write(this, f"{name}.safetensors", to_state(reply.content.array_records["arrays"]))
        loss = reply.content.metric_records["metrics"]["loss"]
        training = self.task.local_training(client, self._config)
        self._took_part[name] += 1
        claim = claimed(self.task, training, self._took_part[name])
        self._clients[name] = ClientEntry(training, claim, float(loss), kept)  # type: ignore[arg-type]

    def _checked(self, replies: Iterable[Message], this: int) -> list[Message]:
        """The replies, one from every client asked: a study with a client missing would not say what it seems to."""
        again = "The rounds before it are kept; run the same command again to go on."
        answers = list(replies)
        for reply in answers:
            if reply.has_error():
                raise BadInput(f"round {this}: node {reply.metadata.src_node_id} failed: {reply.error.reason} {again}")
        senders = [_sender(reply) for reply in answers]
        if doubled := sorted({client for client in senders if senders.count(client) > 1}):
            names = ", ".join(self.task.clients[client].name for client in doubled)
            raise BadInput(f"round {this}: two nodes answered as {names}; give each its own partition-id. {again}")
        if len(answers) < self._asked:
            raise BadInput(f"round {this}: {len(answers)} of {self._asked} clients answered in time. {again}")
        return answers

    def _write(self, this: int, name: str, state: dict[str, Tensor]) -> None:
        self._files[name] = self._writer.submit(self.store.write_file, this, name, state)

    def _finish(self, this: int, validation: dict[str, dict[str, float | None]]) -> None:
        if remembered := server_state(self.inner):
            self._write(this, "server.safetensors", remembered)
        checksums = {name: written.result() for name, written in self._files.items()}
        manifest = RoundManifest(this, self._clients, validation, checksums, self._cohort)
        self.store.commit(manifest, {"seconds": time.monotonic() - self._began})
        if self._clients:
            losses = [entry.loss for entry in self._clients.values()]
            self.progress.round_done(this, manifest.validation_accuracy, sum(losses) / len(losses))  # type: ignore[arg-type]


def _sender(reply: Message) -> int:
    return int(reply.content.config_records["sender"]["client"])  # type: ignore[arg-type]


def _cohort(metrics: MetricRecord | None) -> CohortEntry | None:
    if metrics is None or NOISE not in metrics:
        return None
    return CohortEntry(float(metrics[NOISE]), float(metrics[DISTANCE]))  # type: ignore[arg-type]


def _utility(reply: Message) -> dict[str, float | None]:
    metrics = reply.content.metric_records["metrics"]
    return {key: float(value) for key, value in metrics.items() if key != "num-examples"}  # type: ignore[arg-type]

"""A strategy that writes down what passes through the server, and can go on where a run was stopped."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
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
from fluoroscope.federation.replies import Answers, ReplyCheck
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.strategies import server_state
from fluoroscope.federation.task import Task
from fluoroscope.federation.wrapper import Wrapper
from fluoroscope.rng import derive, seeded_globals


class Recorder(Wrapper):
    """Around any strategy. Flower counts rounds from 1 in every start; `done` rounds lie behind this one."""

    def __init__(
        self,
        inner: Strategy,
        task: Task,
        store: RecordStore,
        done: int,
        progress: Progress,
        owners: Mapping[int, int] | None = None,
    ) -> None:
        """`owners` are the clients of those nodes that are known before they answer."""
        super().__init__(inner)
        self.task = task
        self.store = store
        self.done = done
        self.progress = progress
        self._check = ReplyCheck(task, owners)
        self._config, self._sent_out = ConfigRecord(), ArrayRecord()
        self._asked: list[int] = []
        self._began = 0.0
        self._clients: dict[str, ClientEntry] = {}
        self._cohort: CohortEntry | None = None
        self._refused: dict[str, str] = {}
        self._took_part = Counter(name for r in range(1, done + 1) for name in store.manifest(r).took_part)
        self._files: dict[str, Future[str]] = {}
        # Beside the aggregation, which leaves a core free: recording then costs next to nothing.
        self._writer = ThreadPoolExecutor(max_workers=1)

    def close(self) -> None:
        """Let go of the folder: nothing is written into it after this, also where a round ended in an error."""
        self._writer.shutdown(cancel_futures=True)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        this = server_round + self.done
        self._began, self._clients, self._files, self._refused = time.monotonic(), {}, {}, {}
        # Flower samples clients with the global generator.
        with seeded_globals(derive(self.task.plan.seed, "sampling", this)):
            messages = list(self.inner.configure_train(this, arrays, config, grid))
        self._config, self._sent_out, self._asked = config, arrays, _nodes(messages)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        this = server_round + self.done
        answers = self._check.trained(self._asked, replies, self._sent_out)
        self._go_on_without(this, answers, "training")
        for client, reply in answers.good.items():  # before delegating: FedMedian takes the arrays out of the replies
            self._record(this, client, reply)
        with seeded_globals(derive(self.task.plan.seed, "aggregation", this)):
            arrays, metrics = self.inner.aggregate_train(this, list(answers.good.values()))
        if arrays is None:
            raise BadInput(f"round {this}: the strategy made nothing of {len(answers.good)} replies.")
        self._write(this, "global.safetensors", to_state(arrays))
        self._cohort = _cohort(metrics)
        return arrays, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        this, plan = server_round + self.done, self.task.plan
        due = this % plan.evaluate_every == 0
        if not due or not any(client.validation for client in self.task.clients):
            self._asked = []
            return []
        messages = list(self.inner.configure_evaluate(this, arrays, config, grid))
        self._asked = _nodes(messages)
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        this = server_round + self.done
        answers, clients = self._check.validated(self._asked, replies), self.task.clients
        self._go_on_without(this, answers, "validation")
        held = {clients[client].name: reply for client, reply in answers.good.items() if clients[client].validation}
        self._finish(this, {name: _utility(reply) for name, reply in held.items()})
        return self.inner.aggregate_evaluate(this, list(answers.good.values()))

    def write_initial(self, state: dict[str, Tensor]) -> None:
        """Round 0: where the federation starts."""
        self._began = time.monotonic()
        self._write(0, "global.safetensors", state)
        self._finish(0, {})

    def _record(self, this: int, client: int, reply: Message) -> None:
        plan, name = self.task.plan.records, self.task.clients[client].name
        kept = plan.keeps_round(this) and plan.keeps_client(name)
        if kept:
            self._write(this, f"{name}.safetensors", to_state(reply.content.array_records["arrays"]))
        loss = reply.content.metric_records["metrics"]["loss"]
        training = self.task.local_training(client, self._config)
        self._took_part[name] += 1
        claim = claimed(self.task, training, self._took_part[name])
        self._clients[name] = ClientEntry(training, claim, float(loss), kept)  # type: ignore[arg-type]

    def _go_on_without(self, this: int, answers: Answers, what: str) -> None:
        """Note who was refused, and stop where too few are left: by default where anybody is, since a study with a
        client missing would not say what it seems to."""
        asked, least = len(self._asked), self.task.plan.strategy.min_clients
        if answers.refused and len(answers.good) < min(asked, asked if least is None else least):
            who, why = next(iter(answers.refused.items()))
            few = f"{len(answers.good)} of {asked} clients answered as agreed in {what}"
            keep = "" if least is None else f", and strategy.min_clients = {least}"
            raise BadInput(
                f"round {this}: {who} {why}. {few}{keep}. The rounds before it are kept; run the same command again to "
                "repeat this one, or set strategy.min_clients to go on without."
            )
        for name, why in answers.refused.items():
            self._refused[name] = f"{what}: {why}"
            if what == "training":  # its update has left it, whatever became of it here
                self._took_part[name] += 1

    def _write(self, this: int, name: str, state: dict[str, Tensor]) -> None:
        self._files[name] = self._writer.submit(self.store.write_file, this, name, state)

    def _finish(self, this: int, validation: dict[str, dict[str, float | None]]) -> None:
        if remembered := server_state(self.inner):
            self._write(this, "server.safetensors", remembered)
        checksums = {name: written.result() for name, written in self._files.items()}
        manifest = RoundManifest(this, self._clients, validation, checksums, self._cohort, self._refused)
        self.store.commit(manifest, {"seconds": time.monotonic() - self._began})
        if self._clients:
            losses = [entry.loss for entry in self._clients.values()]
            self.progress.round_done(this, manifest.validation_accuracy, sum(losses) / len(losses))  # type: ignore[arg-type]


def _nodes(messages: Iterable[Message]) -> list[int]:
    return [message.metadata.dst_node_id for message in messages]


def _cohort(metrics: MetricRecord | None) -> CohortEntry | None:
    if metrics is None or NOISE not in metrics:
        return None
    return CohortEntry(float(metrics[NOISE]), float(metrics[DISTANCE]))  # type: ignore[arg-type]


def _utility(reply: Message) -> dict[str, float | None]:
    metrics = reply.content.metric_records["metrics"]
    return {key: float(value) for key, value in metrics.items() if key != "num-examples"}  # type: ignore[arg-type]

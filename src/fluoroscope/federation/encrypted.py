"""The server's side of homomorphic encryption: it adds ciphertexts and hands the sum on, and holds nothing else."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from torch import Tensor

from fluoroscope.defences import SealingDefence
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.federation.privacy import forms_mean
from fluoroscope.federation.task import Task
from fluoroscope.federation.wrapper import Wrapper

SEALED = "sealed"
"""The record that carries ciphertexts, and with a client's the public context."""


class EncryptedSum(Wrapper):
    """Its copy of the sealed layers stays at the first round's; beside it goes the sum of all changes since, sealed."""

    def __init__(self, inner: Strategy, defence: SealingDefence) -> None:
        super().__init__(inner)
        self.defence = defence
        self.total: list[bytes] = []

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        return self._with_total(self.inner.configure_train(server_round, arrays, config, grid))

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        return self._with_total(self.inner.configure_evaluate(server_round, arrays, config, grid))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        sealed = [reply.content.config_records[SEALED] for reply in replies]
        sums = [_parts(record) for record in sealed] + ([self.total] if self.total else [])
        try:
            self.total = self.defence.add(bytes(sealed[0]["context"]), sums)  # type: ignore[arg-type]  # the client put bytes there
        except (ValueError, RuntimeError) as problem:  # each opens by itself, and they are of different sizes or keys
            raise BadInput(
                f"round {server_round}: the clients' ciphertexts do not add up ({problem}): keys or layers differ. "
                "The rounds before it are kept; run the same command again."
            ) from problem
        for reply in replies:
            del reply.content[SEALED]
        return self.inner.aggregate_train(server_round, replies)

    def _with_total(self, messages: Iterable[Message]) -> Iterable[Message]:
        for message in messages:
            if self.total:
                message.content[SEALED] = sealed_record(self.total)
            yield message

    def state(self) -> dict[str, Tensor]:
        """What has to be kept to go on after a stop."""
        return {
            f"sealed/{i:06d}": torch.frombuffer(bytearray(part), dtype=torch.uint8) for i, part in enumerate(self.total)
        }

    def restore(self, kept: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Takes its own, and gives back the rest."""
        own = sorted(name for name in kept if name.startswith("sealed/"))
        self.total = [kept[name].numpy().tobytes() for name in own]
        return {name: value for name, value in kept.items() if name not in own}


def sealed_record(ciphertexts: Sequence[bytes], context: bytes = b"") -> ConfigRecord:
    """As it goes over the wire."""
    return ConfigRecord({"ciphertexts": list(ciphertexts), "context": context})


def _parts(record: ConfigRecord) -> list[bytes]:
    return list(record["ciphertexts"])  # type: ignore[arg-type]  # the client put bytes there


def received_parts(message: Message) -> list[bytes]:
    """The sealed sum that came with the model; empty in the first round."""
    record = message.content.config_records.get(SEALED)
    return [] if record is None else _parts(record)


def check_encryption(task: Task, encryption: SealingDefence | None) -> None:
    """A server that cannot read can only add: the strategy must be a mean over all clients."""
    if encryption is None:
        return
    name, fraction = task.plan.strategy.name, task.plan.strategy.fraction
    if not forms_mean(task) or fraction < 1:
        raise Misconfigured(
            f"encryption needs a mean over all clients, and strategy {name} with fraction {fraction:g} is none: use "
            "fedavg, fedprox or fedopt with fraction 1."
        )
    if task.plan.strategy.min_clients is not None:
        raise Misconfigured(
            "a sealed sum is a mean over all clients: leave strategy.min_clients or the encryption out."
        )
    if task.defence.cohort is not None:
        raise Misconfigured("a defence at the server cannot clip what it cannot read: leave it or the encryption out.")

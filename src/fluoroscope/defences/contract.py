"""What a defence is: it stands at one of three seams, and says what it promises."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from fluoroscope.defences.mechanism import SampledGaussian
from fluoroscope.types import LocalTraining, PrivacyClaim, PrivateBatch, Relation, State, UpdateRecord


@dataclass(frozen=True)
class Participation:
    """How often a client takes part, and in what company: what a claim depends on beside the defence itself."""

    training: LocalTraining
    rounds: int
    """In which the client took part."""
    clients: int = 1
    """In a round."""
    share: float | None = None
    """The largest weight of a client in the server's mean; None where the server does not form a mean."""
    open_buffers: bool = False
    """Whether buffers that training changes, such as BatchNorm's statistics, leave the client as they are."""
    values: int | None = None
    """How many numbers leave the client in a round, buffers too; None where that is not known."""
    open_scalars: bool = False
    """Whether the network has single numbers that are no vector of one: the filters of Flower and NVFlare pass those on
    as they are. A counter of batches is none, since it tells nothing of the images."""


class Defence(Protocol):
    """Anything at any seam."""

    def claim(self, participation: Participation) -> PrivacyClaim:
        """What it promises after n rounds; an epsilon comes with its unit, relation and trust (`dp_claim`)."""
        ...


@runtime_checkable
class CountedDefence(Defence, Protocol):
    """Says what its epsilon is counted from, so that canaries can test it."""

    def mechanism(self, participation: Participation) -> SampledGaussian:
        """The noise, in units of what one unit can change; of use where `claim` has an epsilon."""
        ...


@runtime_checkable
class TrainingDefence(Defence, Protocol):
    """Stands in for the client's plain training."""

    def check(self, model: nn.Module) -> None:
        """Refuse a network that it cannot train, before anything is begun."""
        ...

    def train(
        self, model: nn.Module, state: State, data: PrivateBatch, training: LocalTraining, rng: torch.Generator
    ) -> tuple[dict[str, Tensor], float]:
        """The state after the round, and the mean loss."""
        ...


@runtime_checkable
class UpdateDefence(Defence, Protocol):
    """Changes what leaves the client."""

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        """The record as the server will see it."""
        ...


@runtime_checkable
class StatisticsDefence(UpdateDefence, Protocol):
    """May keep BatchNorm's statistics with the clients."""

    @property
    def withholds_statistics(self) -> bool:
        """Whether the server gets none, so that it has to estimate them to test its model."""
        ...


@runtime_checkable
class SealingDefence(UpdateDefence, Protocol):
    """Encrypts a part of the update, which `send` leaves out: the server adds what it cannot read."""

    def sealed(self, record: UpdateRecord) -> list[str]:
        """The names that are encrypted, in the order of the ciphertexts."""
        ...

    def encrypt(self, record: UpdateRecord, weight: float) -> list[bytes]:
        """The change of the sealed names times the client's weight, so that sums are means."""
        ...

    def decrypt(self, ciphertexts: Sequence[bytes], state: State, names: Iterable[str]) -> dict[str, Tensor]:
        """The state with the sum of all changes so far added to the sealed names."""
        ...

    def public_context(self) -> bytes:
        """What the server needs to add: it can decrypt nothing with it."""
        ...

    def add(self, context: bytes, sums: Sequence[Sequence[bytes]]) -> list[bytes]:
        """Ciphertext by ciphertext, on the server's side, which has no key."""
        ...


@dataclass(frozen=True, eq=False)
class Released:
    """An aggregated update as it may leave, and what the server writes down about its noise."""

    update: dict[str, Tensor]
    noise: float
    """Standard deviation."""
    distance: float
    """How far apart the clients were, as the defence measures it."""


@runtime_checkable
class ServerDefence(Defence, Protocol):
    """Stands at an honest server, between the updates that arrive and the model that goes out."""

    @property
    def before_optimiser(self) -> bool:
        """Whether the noise enters the mean, before the strategy's own optimiser, or the model that leaves it."""
        ...

    def clip_update(self, update: State) -> dict[str, Tensor]:
        """One client's update as it may enter the mean."""
        ...

    def noise_aggregate(self, update: State, cohort: Sequence[State], rng: torch.Generator) -> Released:
        """The aggregated update as it may leave, given what `clip_update` made of each client's."""
        ...


@runtime_checkable
class AdaptiveServerDefence(ServerDefence, Protocol):
    """Changes its clipping norm from round to round."""

    @property
    def clip_norm(self) -> float:
        """Of this round."""
        ...

    def adapted(self, cohort: Sequence[State], rng: torch.Generator) -> "AdaptiveServerDefence":
        """As it noises this round and clips the next, given the updates as they arrived."""
        ...

    def with_clip_norm(self, clip_norm: float) -> "AdaptiveServerDefence":
        """As a run that was stopped goes on."""
        ...


@runtime_checkable
class WholeStateDefence(ServerDefence, Protocol):
    """May clip and noise buffers like parameters, and not leave them to be averaged apart."""

    @property
    def covers_buffers(self) -> bool:
        """Whether it does."""
        ...


def dp_claim(
    epsilon: float | None,
    delta: float,
    unit: Literal["record", "patient", "client"],
    relation: Relation,
    trust: Literal["local", "central"],
    statement: str,
) -> PrivacyClaim:
    """A claim of differential privacy, or of none where epsilon has no bound."""
    if epsilon is None:
        return PrivacyClaim(statement="not differential privacy: the noise is too small for any bound on epsilon")
    return PrivacyClaim(epsilon, delta, unit, statement, relation, trust)


def buffers_void(how: str) -> PrivacyClaim:
    """No claim: what is released beside the noise is not covered by it, so the release as a whole has no bound."""
    return PrivacyClaim(
        statement=f"not differential privacy: the network's buffers (BatchNorm's statistics) {how} without noise; put "
        "fed-bn into the plan, or use a model without them (resnet18-gn)"
    )


def scalars_void() -> PrivacyClaim:
    """No claim, for the same reason."""
    return PrivacyClaim(
        statement="not differential privacy: the filter passes single numbers (arrays without a dimension) on without "
        "noise, and this network has some; make each a vector of one"
    )


def norm(update: Mapping[str, Tensor]) -> Tensor:
    """The L2 norm over all arrays together."""
    each = torch.stack([torch.linalg.vector_norm(value) for value in update.values()])
    return each.square().sum().sqrt()


def sent(record: UpdateRecord, update: State) -> dict[str, Tensor]:
    """The parameters that carry this update."""
    return {name: record.state_before[name] + change for name, change in update.items()}

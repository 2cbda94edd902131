"""What a defence is: it stands at one of three seams, and says what it promises."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from fluoroscope.types import LocalTraining, PrivacyClaim, PrivateBatch, State, UpdateRecord


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


class Defence(Protocol):
    """Anything at any seam."""

    def claim(self, participation: Participation) -> PrivacyClaim:
        """What it promises after so many rounds."""
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


def norm(update: Mapping[str, Tensor]) -> Tensor:
    """The L2 norm over all arrays together."""
    each = torch.stack([torch.linalg.vector_norm(value) for value in update.values()])
    return each.square().sum().sqrt()


def sent(record: UpdateRecord, update: State) -> dict[str, Tensor]:
    """The parameters that carry this update."""
    return {name: record.state_before[name] + change for name, change in update.items()}

"""Central differential privacy for whole clients (P3): clip every update, noise the mean."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.defences.accounting import DELTA, epsilon, gaussian
from fluoroscope.defences.clipping import clipped
from fluoroscope.defences.contract import Participation
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.defences.settings import above, at_least
from fluoroscope.types import PrivacyClaim, State


@DEFENCES.register("global-dp")
@dataclass(frozen=True)
class GlobalDp:
    """N(0, multiplier * clip / clients) on the aggregated update. The server itself sees everything."""

    clip: float = 5.0
    multiplier: float = 0.01
    """P3's n_eps."""
    delta: float = DELTA

    def __post_init__(self) -> None:
        above("clip", self.clip, 0)
        at_least("multiplier", self.multiplier, 0)

    def claim(self, participation: Participation) -> PrivacyClaim:
        return central_claim(self.multiplier, self.delta, participation)

    def received(self, update: State) -> dict[str, Tensor]:
        return clipped(update, self.clip)

    def released(self, update: State, cohort: Sequence[State], rng: torch.Generator) -> dict[str, Tensor]:
        return noised(update, self.multiplier * self.clip / len(cohort), rng)


def noised(update: State, deviation: float, rng: torch.Generator) -> dict[str, Tensor]:
    """Plus N(0, deviation) everywhere."""
    return {name: v + deviation * torch.randn(v.shape, generator=rng).to(v.device) for name, v in update.items()}


def central_claim(multiplier: float, delta: float, participation: Participation) -> PrivacyClaim:
    """Of a mean with noise of multiplier * clip / clients, in which a client weighs at most `share`."""
    if participation.share is None:
        return PrivacyClaim(
            statement="not differential privacy: this strategy forms no mean, so a client's influence has no bound"
        )
    if not multiplier:
        return PrivacyClaim(statement="not differential privacy: there is no noise")
    # One client moves the mean by share * clip; Gaussian noise counts in units of that.
    effective = multiplier / (participation.clients * participation.share)
    spent = epsilon(gaussian(effective, participation.rounds), delta)
    return PrivacyClaim(spent, delta, "client", "a client added or removed; not against the server")

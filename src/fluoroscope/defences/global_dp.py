"""Central differential privacy for whole clients (P3): clip every update, noise the mean."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.defences.accounting import DELTA, epsilon, gaussian
from fluoroscope.defences.clipping import clipped
from fluoroscope.defences.contract import Participation, Released
from fluoroscope.defences.distance import distance
from fluoroscope.defences.range_checks import above, at_least
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.types import PrivacyClaim, State


@DEFENCES.register("global-dp")
@dataclass(frozen=True)
class GlobalDp:
    """N(0, multiplier * clip / clients) on the aggregated update. The server itself sees everything."""

    clip: float = 5.0
    multiplier: float = 0.01
    """P3's n_eps."""
    before_optimiser: bool = False
    """P3 and Flower noise the model that the strategy gives. True noises the mean that the strategy is given: then its
    momentum holds noise, and all that it does afterwards costs no privacy."""
    delta: float = DELTA

    def __post_init__(self) -> None:
        above("clip", self.clip, 0)
        at_least("multiplier", self.multiplier, 0)

    def claim(self, participation: Participation) -> PrivacyClaim:
        if participation.share is None:
            return PrivacyClaim(
                statement="not differential privacy: noise comes after a strategy that is no plain mean, so a client's "
                "influence on what it covers has no bound; before_optimiser = true bounds it for all but fedmedian"
            )
        if not self.multiplier:
            return PrivacyClaim(statement="not differential privacy: there is no noise")
        # One client moves the mean by share * clip; Gaussian noise counts in units of that.
        effective = self.multiplier / (participation.clients * participation.share)
        spent = epsilon(gaussian(effective, participation.rounds), self.delta)
        return PrivacyClaim(spent, self.delta, "client", "a client added or removed; not against the server")

    def clip_update(self, update: State) -> dict[str, Tensor]:
        return clipped(update, self.clip)

    def noise_aggregate(self, update: State, cohort: Sequence[State], rng: torch.Generator) -> Released:
        noise = self.multiplier * self.clip / len(cohort)
        return Released(noised(update, noise, rng), noise, distance(cohort))


def noised(update: State, deviation: float, rng: torch.Generator) -> dict[str, Tensor]:
    """Plus N(0, deviation) everywhere."""
    return {name: v + deviation * torch.randn(v.shape, generator=rng).to(v.device) for name, v in update.items()}

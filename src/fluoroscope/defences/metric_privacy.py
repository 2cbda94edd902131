"""Metric privacy (P3): as global DP, with noise by how far the clients are apart."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fluoroscope.defences.accounting import DELTA
from fluoroscope.defences.clipping import clipped
from fluoroscope.defences.contract import Participation, Released
from fluoroscope.defences.distance import Layers, distance
from fluoroscope.defences.global_dp import noised
from fluoroscope.defences.range_checks import above, at_least
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.errors import Misconfigured
from fluoroscope.types import PrivacyClaim, State

Scale = Literal["inverse", "direct"]


@DEFENCES.register("metric-privacy")
@dataclass(frozen=True)
class MetricPrivacy:
    """N(0, multiplier * clip * f / clients) on the aggregated update: docs/decisions/0012 says why f = d."""

    clip: float = 5.0
    multiplier: float = 0.01
    """P3's n_eps."""
    scale: Scale = "direct"
    """f = d (direct, P3's prose), or 1 / d (inverse, P3's formula)."""
    layers: Layers = "arrays"
    """What d is a mean over."""
    before_optimiser: bool = False
    """As for global-dp."""
    delta: float = DELTA

    def __post_init__(self) -> None:
        above("clip", self.clip, 0)
        at_least("multiplier", self.multiplier, 0)
        if self.scale not in ("inverse", "direct") or self.layers not in ("arrays", "weights"):
            raise Misconfigured(
                f"scale must be inverse or direct and layers arrays or weights, not {self.scale!r} and {self.layers!r}."
            )

    def claim(self, participation: Participation) -> PrivacyClaim:
        if not self.multiplier:
            return PrivacyClaim(statement="not differential privacy: there is no noise")
        # P3 definitions 6 and 7: noise s keeps two cohorts whose means lie r apart within epsilon * r.
        base = math.sqrt(2 * math.log(1.25 / self.delta)) * participation.clients / (self.multiplier * self.clip)
        by = "divided by" if self.scale == "direct" else "times"
        return PrivacyClaim(
            statement=f"not differential privacy, but metric privacy: in each round two cohorts whose means lie "
            f"r apart stay within epsilon * r at delta {self.delta:g}, epsilon = {base:.4g} {by} that round's d; d "
            "is computed from the clients' data and is not itself protected"
        )

    def clip_update(self, update: State) -> dict[str, Tensor]:
        return clipped(update, self.clip)

    def noise_aggregate(self, update: State, cohort: Sequence[State], rng: torch.Generator) -> Released:
        apart = distance(cohort, self.layers)
        if not apart:  # identical clients: nobody can be told from another
            return Released(dict(update), 0.0, apart)
        factor = apart if self.scale == "direct" else 1 / apart
        noise = self.multiplier * self.clip * factor / len(cohort)
        return Released(noised(update, noise, rng), noise, apart)

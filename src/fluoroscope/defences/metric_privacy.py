"""Metric privacy (P3): as central DP, with noise by how far the clients are apart."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fluoroscope.defences.accounting import DELTA
from fluoroscope.defences.central_dp import noised
from fluoroscope.defences.clipping import clipped
from fluoroscope.defences.contract import Participation, Released
from fluoroscope.defences.distance import Layers, distance
from fluoroscope.defences.range_checks import FORMER, check_gaussian
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.errors import Misconfigured
from fluoroscope.types import PrivacyClaim, State

Scale = Literal["inverse", "direct"]


@DEFENCES.register("metric-privacy")
@dataclass(frozen=True)
class MetricPrivacy:
    """N(0, noise_multiplier * clip_norm * f / clients) on the aggregated update: docs/decisions/0012 says why f = d."""

    clip_norm: float = 5.0
    """P3's C: the L2 norm over all arrays that no client's update exceeds."""
    noise_multiplier: float = 0.01
    """P3's n_eps."""
    scale: Scale = "direct"
    """f = d (direct, P3's prose), or 1 / d (inverse, P3's formula)."""
    layers: Layers = "arrays"
    """What d is a mean over."""
    before_optimiser: bool = False
    """As for central-dp."""
    delta: float = DELTA
    OLD_NAMES: ClassVar[Mapping[str, str]] = FORMER

    def __post_init__(self) -> None:
        check_gaussian(self.clip_norm, self.noise_multiplier, self.delta, noiseless=True)
        if self.scale not in ("inverse", "direct") or self.layers not in ("arrays", "weights"):
            raise Misconfigured(
                f"scale must be inverse or direct and layers arrays or weights, not {self.scale!r} and {self.layers!r}."
            )

    def claim(self, participation: Participation) -> PrivacyClaim:
        if not self.noise_multiplier:
            return PrivacyClaim(statement="not differential privacy: there is no noise")
        # P3 definitions 6 and 7: noise s keeps two cohorts whose means lie r apart within epsilon * r.
        noise = self.noise_multiplier * self.clip_norm / participation.clients
        base = math.sqrt(2 * math.log(1.25 / self.delta)) / noise
        by = "divided by" if self.scale == "direct" else "times"
        return PrivacyClaim(
            statement=f"not differential privacy, but metric privacy: in each round two cohorts whose means lie "
            f"r apart stay within epsilon * r at delta {self.delta:g}, epsilon = {base:.4g} {by} that round's d; d "
            "is computed from the clients' data and is not itself protected"
        )

    def clip_update(self, update: State) -> dict[str, Tensor]:
        return clipped(update, self.clip_norm)

    def noise_aggregate(self, update: State, cohort: Sequence[State], rng: torch.Generator) -> Released:
        apart = distance(cohort, self.layers)
        if not apart:  # identical clients: nobody can be told from another
            return Released(dict(update), 0.0, apart)
        factor = apart if self.scale == "direct" else 1 / apart
        noise = self.noise_multiplier * self.clip_norm * factor / len(cohort)
        return Released(noised(update, noise, rng), noise, apart)

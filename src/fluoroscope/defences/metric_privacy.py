"""Metric privacy (P3): as global DP, with noise in proportion to how far the clients are apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import torch
from torch import Tensor

from fluoroscope.defences.accounting import DELTA
from fluoroscope.defences.clipping import clipped
from fluoroscope.defences.contract import Participation
from fluoroscope.defences.global_dp import noised
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.defences.settings import above, at_least
from fluoroscope.errors import Misconfigured
from fluoroscope.types import PrivacyClaim, State

Layers = Literal["arrays", "weights"]
SCALES = ("inverse", "direct")


def distance(cohort: Sequence[State], layers: Layers) -> float:
    """d: over all pairs the largest mean, over the layers, of the Frobenius norm of their difference (P3 eq. 5).

    A layer is every array, or every weight matrix and kernel: P3's text allows both.
    """
    names = [name for name, value in cohort[0].items() if layers == "arrays" or value.ndim > 1]
    pairs = [
        torch.stack([torch.linalg.vector_norm(a[name] - b[name]) for name in names]).mean()
        for a, b in combinations(cohort, 2)
    ]
    return float(torch.stack(pairs).max()) if pairs else 0.0


@DEFENCES.register("metric-privacy")
@dataclass(frozen=True)
class MetricPrivacy:
    """N(0, multiplier * clip * f / clients) on the aggregated update, f = d (direct) or 1 / d (inverse)."""

    clip: float = 5.0
    multiplier: float = 0.01
    scale: Literal["inverse", "direct"] = "direct"
    layers: Layers = "arrays"
    delta: float = DELTA

    def __post_init__(self) -> None:
        above("clip", self.clip, 0)
        at_least("multiplier", self.multiplier, 0)
        if self.scale not in SCALES or self.layers not in ("arrays", "weights"):
            raise Misconfigured(
                f"scale must be inverse or direct and layers arrays or weights, not {self.scale!r} and {self.layers!r}."
            )

    def claim(self, participation: Participation) -> PrivacyClaim:
        return PrivacyClaim(
            statement="not differential privacy: metric privacy, whose epsilon is for clients at distance 1; the "
            "distance is measured on the data and is itself not protected"
        )

    def received(self, update: State) -> dict[str, Tensor]:
        return clipped(update, self.clip)

    def released(self, update: State, cohort: Sequence[State], rng: torch.Generator) -> dict[str, Tensor]:
        apart = distance(cohort, self.layers)
        if not apart:  # identical clients: nobody can be told from another
            return dict(update)
        factor = apart if self.scale == "direct" else 1 / apart
        return noised(update, self.multiplier * self.clip * factor / len(cohort), rng)

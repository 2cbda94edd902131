"""Bins of each feature: thresholds between which an image of the victim should lie alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr
from torch import Tensor

from fluoroscope.attacks.imprint.features import Feature
from fluoroscope.errors import Misconfigured

BELOW = 2
"""Thresholds under every image: the first bins hold what is darker than anything in the auxiliary set."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Neuron f * width + l fires for images whose feature f exceeds thresholds[f, l]; the neurons beyond never fire."""

    features: tuple[Feature, ...]
    thresholds: Tensor
    """(features, width), rising, float64."""
    neurons: int
    """Of the front, the silent ones included."""

    @property
    def width(self) -> int:
        return self.thresholds.shape[1]

    @property
    def silent(self) -> int:
        """The first neuron that never fires: what it shows is no image."""
        return len(self.features) * self.width

    def locate(self, feature: int, values: Tensor) -> Tensor:
        """The bin of each value, int64; -1 under the first threshold."""
        return torch.searchsorted(self.thresholds[feature].contiguous(), values.contiguous(), right=True) - 1


def make_bins(features: Sequence[Feature], neurons: int, auxiliary: Tensor) -> Bins:
    """Thresholds at equal shares of the auxiliary images (P2: h_j = psi^-1(j/k)), of a smoothed distribution."""
    width = (neurons - 1) // len(features)
    if width < BELOW + 2:
        raise Misconfigured(
            f"{neurons} neurons are too few for {len(features)} features: use at least "
            f"{(BELOW + 2) * len(features) + 1}."
        )
    if len(auxiliary) < 2:
        raise Misconfigured(f"bins need an auxiliary set, not {len(auxiliary)} images; enlarge partition.auxiliary.")
    rows = [torch.from_numpy(_thresholds(feature(auxiliary).numpy(), width)) for feature in features]
    return Bins(tuple(features), torch.stack(rows), neurons)


def _thresholds(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Quantiles of a Gaussian kernel estimate, so that gaps between auxiliary images get their thresholds too."""
    spread = max(float(values.std()), 1e-6)
    bandwidth = 0.9 * spread * len(values) ** (-1 / 5)  # Silverman's rule
    grid = np.linspace(values.min() - 4 * bandwidth, values.max() + 4 * bandwidth, 8 * count + 1)
    share = np.zeros_like(grid)
    for part in np.array_split(values, math.ceil(len(values) / 512)):
        share += ndtr((grid[:, None] - part[None]) / bandwidth).sum(1)
    share /= len(values)
    inner = count - BELOW
    quantiles = np.interp((np.arange(inner) + 0.5) / inner, share, grid)
    below = values.min() - spread * np.arange(10 * BELOW, 0, -10)
    return np.concatenate([below, quantiles])

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

Values = NDArray[np.float64]
BELOW = 2
"""Thresholds under every image: the first bins hold what is darker than anything in the auxiliary set."""
BY_CHANCE = 2.0
"""Standard errors that kernels of different widths must gain."""
TRIED = 500
"""Images on which that is measured, at most."""
FINEST = 1e-4
"""Of the values' spread: nothing is told apart more finely, as float32 and the update itself move thresholds so far."""


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
    values = [feature(auxiliary).numpy() for feature in features]
    even, own = [_silverman(each) for each in values], [_to_neighbours(each) for each in values]
    bandwidths = own if _peaked(values, even, own) else even
    rows = [torch.from_numpy(_thresholds(*each, width)) for each in zip(values, bandwidths, strict=True)]
    return Bins(tuple(features), torch.stack(rows), neurons)


def _thresholds(values: Values, bandwidths: Values, count: int) -> Values:
    """Quantiles of a Gaussian kernel estimate, so that gaps between auxiliary images get their thresholds too."""
    # Finer where there are more values; eight a bin.
    grid = np.unique(values[:, None] + bandwidths[:, None] * np.linspace(-4, 4, 17))
    grid = grid[np.linspace(0, len(grid) - 1, min(len(grid), 8 * count + 1)).astype(int)]
    share = np.zeros_like(grid)
    parts = math.ceil(len(values) / 512)
    for part, widths in zip(np.array_split(values, parts), np.array_split(bandwidths, parts), strict=True):
        share += ndtr((grid[:, None] - part) / widths).sum(1)
    share /= len(values)
    inner = count - BELOW
    quantiles = np.interp((np.arange(inner) + 0.5) / inner, share, grid)
    below = values.min() - _spread(values) * np.arange(10 * BELOW, 0, -10)
    return np.concatenate([below, quantiles])


def _spread(values: Values) -> float:
    return max(float(values.std()), 1e-6)


def _silverman(values: Values) -> Values:
    """One width for all kernels, by Silverman's rule: the steadiest where there is no peak."""
    return np.full_like(values, 0.9 * _spread(values) * len(values) ** (-1 / 5))


def _to_neighbours(values: Values) -> Values:
    """Of each value's kernel: how far its k-th neighbour is, Silverman's at most (Breiman, Meisel, Purcell 1977).

    One width blurs a peak beside long tails: images without contrast lie within a hundredth of the spread of images
    with much, and would share a few bins.
    """
    count, widest = len(values), _silverman(values)
    k = min(math.ceil(count**0.8 / 2), count - 1)  # as many as within Silverman's width in the middle of a Gaussian
    # The k nearest of a value lie in one of the windows of k + 1 neighbours around it.
    order = np.sort(values)
    first = np.clip(np.searchsorted(order, values)[:, None] - np.arange(k + 1), 0, count - 1 - k)
    reach = np.maximum(values[:, None] - order[first], order[first + k] - values[:, None]).min(1)
    widths: Values = np.minimum(np.maximum(reach, FINEST * _spread(values)), widest)
    return widths


def _peaked(values: Sequence[Values], even: Sequence[Values], own: Sequence[Values]) -> bool:
    """Whether widths of their own foresee left-out images better over all features, by more than chance."""
    gains = [
        _log_likelihoods(each, narrow) - _log_likelihoods(each, wide)
        for each, wide, narrow in zip(values, even, own, strict=True)
    ]
    gain = np.clip(gains, -1, 1).mean(0)  # no single image in a tail decides
    by_chance = BY_CHANCE * float(gain.std()) / math.sqrt(len(gain))
    return float(gain.mean()) > by_chance


def _log_likelihoods(values: Values, bandwidths: Values) -> Values:
    """Of some of the values, each by the kernels of all others."""
    tried = np.linspace(0, len(values) - 1, min(len(values), TRIED)).astype(int)
    density = np.exp(-0.5 * ((values[tried, None] - values) / bandwidths) ** 2) / bandwidths
    density[np.arange(len(tried)), tried] = 0
    found: Values = np.log(density.sum(1).clip(np.finfo(np.float64).tiny))
    return found

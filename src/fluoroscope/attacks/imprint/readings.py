"""What every bin says of each feature: numerator and denominator, summed over its images, and how unsure that is.

A feature's own bins may not show its pixels: beside large weights, small updates are rounded away. But its bins say
where the images in them lie, and other features' bins show those pixels.
"""

import torch
from torch import Tensor

from fluoroscope.attacks.imprint.bin_sums import BinSums
from fluoroscope.attacks.imprint.bins import BELOW, Bins
from fluoroscope.attacks.imprint.features import Feature


def centred(bins: Bins) -> tuple[Feature, ...]:
    """The features less where most thresholds are: then a small error of a denominator counts little."""
    made = []
    for feature, thresholds in zip(bins.features, bins.thresholds, strict=True):
        if feature.denominator is None:
            made.append(feature)
        else:
            middle = thresholds.median()
            made.append(Feature(feature.numerator - middle * feature.denominator, feature.denominator))
    return tuple(made)


def edges(bins: Bins) -> Tensor:
    """(features, width + 1): thresholds on the scale of `centred` features; no image lies above the last."""
    ends = torch.cat([bins.thresholds, torch.full((len(bins.features), 1), torch.inf, dtype=torch.float64)], 1)
    ratio = torch.tensor([feature.denominator is not None for feature in bins.features])
    return torch.where(ratio[:, None], ends - bins.thresholds.median(1, keepdim=True).values, ends)


def readings(sums: BinSums, bins: Bins, shape: torch.Size) -> tuple[Tensor, Tensor, Tensor]:
    """Numerators, denominators and the variance of the numerators, each (bins, features)."""
    features, ends = centred(bins), edges(bins)
    above = torch.stack([_weighed(sums.pixels, feature.numerator) for feature in features], 1)
    below = torch.stack([_below(sums, feature) for feature in features], 1)
    doubts = torch.zeros_like(above)
    if sums.readable:
        return above, below, doubts
    free = ~torch.stack([feature.support for feature in features]).any(0)
    for f, feature in enumerate(features):
        own = slice(f * bins.width, (f + 1) * bins.width)
        if feature.denominator is not None:
            below[own, f] = _weighed(sums.pixels[own], _spread(feature.denominator, free, shape))
        middle, width = _within(ends[f])
        above[own, f] = middle * below[own, f]
        # Where a bin's images cancel, their doubts do not.
        sizes = below[own, f].abs()
        doubts[own, f] = (width * sizes.clamp_min(sizes[sizes > 0].median() if sizes.any() else 0)).square() / 12
    return above, below, doubts


def _below(sums: BinSums, feature: Feature) -> Tensor:
    return sums.coefficients if feature.denominator is None else _weighed(sums.pixels, feature.denominator)


def _within(ends: Tensor) -> tuple[Tensor, Tensor]:
    """Where the images of each bin lie, about, and how far apart: of a bin without an end, near the end that it has."""
    first, last = ends[BELOW], ends[-2]
    low, high = ends[:-1].clamp_min(first), ends[1:].clamp(first, last)
    width = high - low
    return (low + high) / 2, torch.where(width > 0, width, (last - first) / 2)


def _weighed(pixels: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of each row, in float64."""
    some = weights.nonzero()[:, 0]
    return pixels[:, some].double() @ weights[some].double()


def _spread(weights: Tensor, free: Tensor, shape: torch.Size) -> Tensor:
    """Weights for the free pixels, each pixel being the mean of the free ones around it."""
    count = torch.nn.functional.avg_pool2d(free.view(1, *shape).double(), 3, 1, 1).clamp_min(1e-9)
    each = weights.view(1, *shape).double() / count
    spread: Tensor = torch.nn.functional.avg_pool2d(each, 3, 1, 1).flatten() * free
    return spread

"""How sure a mean is: the percentile bootstrap."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.errors import BadInput, Misconfigured

_DRAWS_AT_ONCE = 2**22


@dataclass(frozen=True)
class Interval:
    """A mean, and the ends between which its resampled means fall."""

    mean: float
    low: float
    high: float
    n: int


def bootstrap_mean(values: Tensor, rng: torch.Generator, resamples: int = 1000, level: float = 0.95) -> Interval:
    """The mean of `values` (n,) with its percentile bootstrap interval at `level`.

    One value tells nothing of its spread: its ends are NaN, not a width of 0 that would look like certainty. Without
    any, the mean is NaN too. Values that are not finite leave the mean as it comes out, and no ends.
    """
    if values.ndim != 1:
        raise BadInput(f"bootstrap_mean needs a list of values, not shape {tuple(values.shape)}; flatten it.")
    if resamples < 1 or not 0 < level < 1:
        raise Misconfigured(
            f"resamples = {resamples} and level = {level:g} do not make an interval; "
            "resamples must be at least 1 and level between 0 and 1, such as 1000 and 0.95."
        )
    values, n = values.detach().cpu().double(), len(values)
    mean = float(values.mean())
    if n < 2 or not math.isfinite(mean):
        return Interval(mean, math.nan, math.nan, n)
    at_once = max(1, _DRAWS_AT_ONCE // n)
    sizes = [min(at_once, resamples - done) for done in range(0, resamples, at_once)]
    means = torch.cat([values[torch.randint(n, (size, n), generator=rng)].mean(1) for size in sizes])
    tail = (1 - level) / 2
    low, high = (float(end) for end in means.quantile(torch.tensor([tail, 1 - tail], dtype=means.dtype)))
    return Interval(mean, low, high, n)

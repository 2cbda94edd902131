"""How sure a mean is: the percentile bootstrap, and for a share of successes Wilson's interval."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from fluoroscope.errors import BadInput, Misconfigured

_DRAWS_AT_ONCE = 2**22


@dataclass(frozen=True)
class Interval:
    """A mean, and the ends between which it lies at the level that was asked for."""

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


def wilson(successes: int, n: int, level: float = 0.95) -> Interval:
    """The share of successes among `n` independent trials with its score interval (Wilson 1927).

    A bootstrap of 20 successes in 20 has no width; this one still says that the true share may be 0.84.
    """
    if not 0 <= successes <= n or not 0 < level < 1:
        raise Misconfigured(
            f"{successes} successes in {n} trials at level {level:g} do not make an interval; successes must be from "
            "0 to the number of trials and level between 0 and 1, such as 0.95."
        )
    if not n:
        return Interval(math.nan, math.nan, math.nan, 0)
    share, z = successes / n, NormalDist().inv_cdf((1 + level) / 2)
    centre = share + z**2 / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low, high = ((centre + side) / (1 + z**2 / n) for side in (-half, half))
    # 0 and 1 are the ends themselves, which rounding may miss.
    return Interval(share, low if successes else 0.0, high if successes < n else 1.0, n)

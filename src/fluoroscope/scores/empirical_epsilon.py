"""Lower bounds on epsilon from what a distinguisher reached: the other end of what an accountant proves.

Scores of games in which a canary was there (`inside`) and was not (`outside`). A mechanism that is (epsilon, delta)-DP
bounds how well any test tells them apart (Kairouz, Oh, Viswanath 2015, theorem 2.1); Clopper-Pearson limits of a
test's two errors turn that into a lower bound that holds at the level that was asked for (Jagielski, Ullman, Oprea
2020; Nasr et al. 2023).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, expit
from scipy.stats import binom
from torch import Tensor

from fluoroscope.errors import BadInput, Misconfigured

LEVEL = 0.95
"""How sure a bound is."""
_THRESHOLDS = 200


@dataclass(frozen=True)
class ErrorRates:
    """Upper limits of a test's two errors, which hold together at the level that was asked for."""

    false_positive: float
    """Of a game without the canary that is taken for one with it."""
    false_negative: float
    """Of a game with the canary that is taken for one without."""
    games: int
    """Both kinds together."""


Floats = npt.NDArray[np.float64]
Choice = Callable[[Tensor, Tensor], float]
"""A threshold, from scores of both kinds."""


def clopper_pearson_upper(successes: int, n: int, level: float) -> float:
    """The upper end of the exact one-sided interval of a share (Clopper and Pearson 1934).

    Example:
        >>> round(clopper_pearson_upper(0, 100, 0.95), 4)
        0.0295
    """
    if not 0 <= successes <= n or not 0 < level < 1:
        raise Misconfigured(
            f"{successes} successes in {n} trials at level {level:g} do not make an interval; successes must be from "
            "0 to the number of trials and level between 0 and 1, such as 0.95."
        )
    return float(_upper(np.array([successes]), n, level)[0])


def error_rates(inside: Tensor, outside: Tensor, threshold: float, level: float = LEVEL) -> ErrorRates:
    """Of the test "the score is above the threshold", which must not have been chosen on these scores."""
    if not len(inside) or not len(outside):
        raise BadInput(f"error rates need games of both kinds, not {len(inside)} and {len(outside)}.")
    each = (1 + level) / 2  # two limits that hold together
    return ErrorRates(
        clopper_pearson_upper(int((outside > threshold).sum()), len(outside), each),
        clopper_pearson_upper(int((inside <= threshold).sum()), len(inside), each),
        len(inside) + len(outside),
    )


def held_out_error_rates(
    inside: Tensor, outside: Tensor, choose: Choice, level: float = LEVEL, share: float = 0.2
) -> ErrorRates:
    """With a threshold that is chosen on the first `share` of the games, of the others.

    Args:
        inside: a score per game with the canary, in the order of the games.
        outside: without.
        choose: how, such as `midpoint`, or `most_epsilon` at a delta.
        level: of the limits.
        share: of the games that are spent on the choice.

    Example:
        >>> import torch
        >>> draws = torch.randn(2, 300, generator=torch.Generator().manual_seed(0))
        >>> rates = held_out_error_rates(draws[0] + 9, draws[1], midpoint)
        >>> rates.false_positive < 0.03 and rates.false_negative < 0.03
        True
    """
    if min(len(inside), len(outside)) < 2:
        raise BadInput(f"a held-out threshold needs two games of each kind, not {len(inside)} and {len(outside)}.")
    inside, outside = (_finite(scores) for scores in (inside, outside))
    first, second = (max(1, int(share * len(scores))) for scores in (inside, outside))
    return error_rates(inside[first:], outside[second:], choose(inside[:first], outside[:second]), level)


def midpoint(inside: Tensor, outside: Tensor) -> float:
    """Midway between the means: where two equal Gaussians cross, and steady on a few games."""
    return float(inside.mean() + outside.mean()) / 2


def most_epsilon(inside: Tensor, outside: Tensor, delta: float, level: float = LEVEL) -> float:
    """The threshold at which these scores prove the largest epsilon."""
    with_it, without = (_finite(scores).sort().values.numpy() for scores in (inside, outside))
    cuts = np.quantile(np.concatenate([with_it, without]), expit(np.linspace(-12, 12, _THRESHOLDS)))  # far into tails
    each = (1 + level) / 2
    false_positive = _upper(len(without) - np.searchsorted(without, cuts, side="right"), len(without), each)
    false_negative = _upper(np.searchsorted(with_it, cuts, side="right"), len(with_it), each)
    return float(cuts[proven_epsilon(false_positive, false_negative, delta).argmax()])


def proven_epsilon(false_positive: Floats, false_negative: Floats, delta: float) -> Floats:
    """The epsilon below which no mechanism makes such errors; 0 where they prove nothing. No assumption is made.

    (epsilon, delta)-DP implies FP + e^epsilon FN >= 1 - delta, and the same with FP and FN exchanged.

    Example:
        >>> import numpy as np
        >>> proven_epsilon(np.array([0.05, 0.5]), np.array([0.1, 0.6]), delta=0.0).round(2)
        array([2.89, 0.  ])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        either = np.maximum(
            (1 - delta - false_positive) / false_negative, (1 - delta - false_negative) / false_positive
        )
        return np.log(np.maximum(either, 1.0))


def epsilon_at_least(rates: ErrorRates, delta: float) -> float:
    """`proven_epsilon` of one test."""
    return float(proven_epsilon(np.array([rates.false_positive]), np.array([rates.false_negative]), delta)[0])


def noise_at_most(rates: ErrorRates, misses: Callable[[float, float], float], low: float, high: float) -> float:
    """The most noise with which such errors can be: more is refuted, whatever the test was (Nasr et al. 2023).

    Args:
        rates: of any test.
        misses: (noise, false alarms) -> the least share of misses; it grows with the noise.
        low: the least noise that is looked at; about the answer where even that is refuted.
        high: the most; the answer where even that is not.

    Example:
        >>> from statistics import NormalDist
        >>> def gaussian(noise, alarms):
        ...     return NormalDist().cdf(NormalDist().inv_cdf(1 - alarms) - 1 / noise)
        >>> round(noise_at_most(ErrorRates(0.3085, 0.3085, 100), gaussian, 0.01, 100.0), 2)
        1.0
    """
    if misses(high, rates.false_positive) <= rates.false_negative:
        return high
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if misses(middle, rates.false_positive) > rates.false_negative else (middle, high)
        if high / low < 1.005:
            break
    return high  # the end that is refuted, or all but: a bound must not promise too much


def one_run_epsilon(scores: Tensor, inside: Tensor, delta: float, guesses: int, level: float = LEVEL) -> float:
    """The bound of many canaries in one run, each there by a coin of its own (Steinke, Nasr, Jagielski 2023).

    The highest half of the guesses are said to be inside, the lowest outside; the attacker abstains from the others.
    Canaries of several independent runs count as canaries of one.

    Args:
        scores: (canaries,), higher for more likely inside.
        inside: (canaries,), bool: the coins.
        delta: of the claim.
        guesses: how many are made; to be fixed before the scores are seen.
        level: how sure the bound is.

    Example:
        >>> import torch
        >>> coins = torch.arange(200) % 2 == 0
        >>> round(one_run_epsilon(coins.double(), coins, delta=1e-5, guesses=200), 2)
        4.19
    """
    if scores.shape != inside.shape or not 0 < guesses <= len(scores):
        raise BadInput(
            f"{len(scores)} scores with {len(inside)} coins do not allow {guesses} guesses; give a coin per score, and "
            "no more guesses than those."
        )
    order = _finite(scores).argsort(descending=True, stable=True)
    yes, no = order[: (guesses + 1) // 2], order[len(order) - guesses // 2 :]
    right = int(inside[yes].sum()) + int((~inside[no]).sum())
    low, high = 0.0, 1.0
    if _tail(right, guesses, len(scores), low, delta) >= 1 - level:
        return 0.0
    while _tail(right, guesses, len(scores), high, delta) < 1 - level:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        refuted = _tail(right, guesses, len(scores), middle, delta) < 1 - level
        low, high = (middle, high) if refuted else (low, middle)
    return low


def _tail(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """How likely so many right guesses are at most, ibid., theorem 5.2 and appendix D."""
    q = 1 / (1 + math.exp(-epsilon))
    pure = float(binom.sf(right - 1, guesses, q))
    if not right:
        return min(1.0, pure)
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, q))  # P[right > W >= right - i]
    worst = float((below / np.arange(1, right + 1)).max())
    return min(1.0, pure + 2 * canaries * delta * worst)


def _upper(successes: npt.NDArray[np.int64], n: int, level: float) -> Floats:
    ends = betaincinv(successes + 1.0, np.maximum(n - successes, 1.0), level)
    return np.where(successes == n, 1.0, ends)


def _finite(scores: Tensor) -> Tensor:
    scores = scores.detach().cpu().double()
    if not scores.isfinite().all():
        raise BadInput("a canary's score is not a finite number: the update diverged.")
    return scores

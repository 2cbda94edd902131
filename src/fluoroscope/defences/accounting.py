"""Epsilon over rounds, counted by dp-accounting: what happened is a DpEvent, how it is counted is Renyi DP."""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from fluoroscope.errors import Misconfigured

if TYPE_CHECKING:  # imported where it counts something: the guard counts nothing, and runs without it
    from dp_accounting import DpEvent

DELTA = 1e-5
_MOST = 1e6
"""More noise is counted as this much, which is safe: dp-accounting squares it, and a larger square has no float."""


def sampled_gaussian(multiplier: float, rate: float, times: int) -> "DpEvent":
    """So many releases with noise of `multiplier` times the sensitivity; a unit enters each with probability `rate`."""
    import dp_accounting

    one = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(min(multiplier, _MOST)))
    return dp_accounting.SelfComposedDpEvent(one, times)


def laplace(multiplier: float, times: int) -> "DpEvent":
    """So many numbers with Laplace noise of the scale `multiplier` times the sensitivity of each."""
    import dp_accounting

    return dp_accounting.SelfComposedDpEvent(dp_accounting.LaplaceDpEvent(multiplier), times)


def pure(epsilon: float, times: int) -> "DpEvent":
    """So many times anything that is epsilon-DP with a delta of 0, which is epsilon^2/2-zCDP (Bun and Steinke 2016)."""
    import dp_accounting

    return dp_accounting.SelfComposedDpEvent(dp_accounting.ZCDpEvent(epsilon**2 / 2), times)


def together(*events: "DpEvent") -> "DpEvent":
    """One after the other, each on the same data."""
    import dp_accounting

    return dp_accounting.ComposedDpEvent(list(events))


def epsilon(event: "DpEvent", delta: float) -> float | None:
    """For neighbours of which one lacks a unit's part in all that was summed; None where there is no bound."""
    from dp_accounting.rdp import RdpAccountant

    if not 0 < delta < 1:
        raise Misconfigured(f"delta must lie between 0 and 1, not {delta}.")
    with _quiet():
        try:
            spent = float(RdpAccountant().compose(event).get_epsilon(delta))
        except ZeroDivisionError:  # so little noise that its square is 0
            return None
    return spent if math.isfinite(spent) else None


@contextmanager
def _quiet() -> Iterator[None]:
    """dp-accounting says at length which orders do not converge for little noise; it leaves those out: that is safe."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with np.errstate(divide="ignore"):
            yield
    finally:
        logger.setLevel(level)


def affordable(rounds: int, budget: float, spent: Callable[[int], float]) -> int:
    """The most of so many rounds that keep `spent` within the budget, by bisection: it grows with the rounds."""
    low, high = 0, rounds
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if spent(middle) <= budget else (low, middle - 1)
    return low

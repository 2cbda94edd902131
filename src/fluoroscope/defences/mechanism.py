"""What a claim counts: Gaussian noise on a sum that a unit enters with some probability, so many times.

Its trade-off function says what any test can reach that looks for the unit (Dong, Roth, Su 2022, "Gaussian
differential privacy"): the least share of misses for a share of false alarms. Epsilon, what canaries may find and what
a reconstruction may reach all follow from it.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from fluoroscope.defences import accounting

_ORDERS = np.linspace(-15.0, 15.0, 241)
"""The epsilons at which the trade-off of a sampled mechanism is taken; any choice gives a valid bound."""

_POINTS = 5_000
"""At most so many losses are told apart; coarser is looser, and still a bound."""


@dataclass(frozen=True)
class SampledGaussian:
    """Noise of `noise_multiplier` times the sensitivity on `times` sums, each entered with probability `rate`.

    Example:
        >>> once = SampledGaussian(noise_multiplier=1.0)
        >>> round(once.tight_epsilon(1e-5), 3), round(once.misses(0.05), 3)
        (4.377, 0.74)
    """

    noise_multiplier: float
    rate: float = 1.0
    times: int = 1

    def over(self, rounds: int) -> "SampledGaussian":
        """The same in so many rounds."""
        return replace(self, times=self.times * rounds)

    def epsilon(self, delta: float) -> float | None:
        """An upper bound by Renyi DP, as claims count it; None where there is none."""
        return accounting.epsilon(accounting.sampled_gaussian(self.noise_multiplier, self.rate, self.times), delta)

    def tight_epsilon(self, delta: float) -> float:
        """What it is, in closed form without sampling, else numerically and rounded down: never above `epsilon`."""
        if self.rate == 1:
            return gaussian_epsilon(self.mu, delta)
        return float(_losses(self, pessimistic=False).get_epsilon_for_delta(delta))

    def misses(self, false_alarms: float) -> float:
        """The trade-off function f: no test with so many false alarms misses the unit less often."""
        if not 0 < false_alarms < 1:
            return 1.0 if false_alarms <= 0 else 0.0
        if self.rate == 1:
            return float(ndtr(-ndtri(false_alarms) - self.mu))  # Dong et al. 2022, eq. 6
        orders, deltas = _ORDERS, _deltas(self)
        return float(max(0.0, (1 - deltas - np.exp(orders) * false_alarms).max()))  # ibid., proposition 6

    @property
    def mu(self) -> float:
        """Of Gaussian DP: how many deviations of the noise apart a unit's two worlds are, without sampling."""
        return math.sqrt(self.times) / self.noise_multiplier


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least epsilon of mu-GDP at `delta` (Balle and Wang 2018, theorem 8)."""
    if mu <= 0 or _gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    high = mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1.0  # zCDP: above the root
    from scipy.optimize import brentq  # slow, and few processes ask for an epsilon

    return float(brentq(lambda epsilon: _gaussian_delta(mu, epsilon) - delta, 0.0, high, xtol=1e-10))


def _gaussian_delta(mu: float, epsilon: float) -> float:
    # e^epsilon in the exponent of the tail: by itself it overflows.
    tail = math.exp(epsilon + float(log_ndtr(-epsilon / mu - mu / 2)))
    return float(ndtr(-epsilon / mu + mu / 2)) - tail


@lru_cache(maxsize=64)
def _losses(mechanism: SampledGaussian, pessimistic: bool) -> Any:  # noqa: ANN401  # dp-accounting has no types
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    reach = 0.5 / mechanism.noise_multiplier**2 + 10 / mechanism.noise_multiplier  # losses of one sum
    one = from_gaussian_mechanism(
        mechanism.noise_multiplier,
        pessimistic_estimate=pessimistic,
        value_discretization_interval=max(2e-3, reach / _POINTS),
        sampling_prob=mechanism.rate,
        use_connect_dots=pessimistic,
    )
    return one.self_compose(mechanism.times)


@lru_cache(maxsize=64)
def _deltas(mechanism: SampledGaussian) -> Any:  # noqa: ANN401  # an array of floats
    return np.asarray(_losses(mechanism, pessimistic=True).get_delta_for_epsilon(_ORDERS))

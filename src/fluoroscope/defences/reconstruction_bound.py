"""What differential privacy leaves to any reconstruction: a bound on how often it can succeed, given how often a guess
without the update does (Balle, Cherubin, Hayes 2022; Hayes, Mahloujifar, Balle 2023; Ziller et al. 2024).

With the unit zeroed out an update is independent of it, so an attacker succeeds by chance only. "It succeeded" is
then a test for the unit whose false alarms are that chance, and the trade-off function bounds its power.
"""

import math

from fluoroscope.defences.mechanism import SampledGaussian
from fluoroscope.defences.range_checks import between


def mechanism_bound(chance: float, mechanism: SampledGaussian) -> float:
    """How often a reconstruction succeeds at most: 1 - f(chance), Hayes et al. 2023, theorem 2.

    Args:
        chance: how often the best guess without the update succeeds, as `told_apart` states it.
        mechanism: what the claim counts.

    Example:
        >>> from fluoroscope.defences.mechanism import SampledGaussian
        >>> round(mechanism_bound(1 / 8, SampledGaussian(noise_multiplier=2.0)), 3)
        0.258
    """
    between("chance", chance, 0, 1)
    return 1 - mechanism.misses(chance)


def claim_bound(chance: float, epsilon: float, delta: float) -> float:
    """The same from epsilon and delta alone: min(1, e^epsilon chance + delta), Balle et al. 2022, theorem 2.

    Example:
        >>> claim_bound(0.125, epsilon=0.0, delta=1e-5)
        0.12501
    """
    between("chance", chance, 0, 1)
    if chance == 0:
        return min(1.0, delta)
    return 1.0 if epsilon + math.log(chance) > 0 else min(1.0, math.exp(epsilon) * chance + delta)

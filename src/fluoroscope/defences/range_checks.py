"""Bad settings are refused with the range that is allowed."""

import math

from fluoroscope.errors import Misconfigured


def at_least(name: str, value: float, low: float) -> None:
    """Finite, and not below `low`."""
    if not (math.isfinite(value) and value >= low):
        raise Misconfigured(f"{name} must be {low:g} or more, not {value:g}.")


def above(name: str, value: float, low: float, below: float = math.inf) -> None:
    """Finite, greater than `low`, and less than `below`."""
    if not low < value < below:
        limits = f"above {low:g}" if math.isinf(below) else f"above {low:g} and below {below:g}"
        raise Misconfigured(f"{name} must be {limits}, not {value:g}.")


def between(name: str, value: float, low: float, high: float) -> None:
    """Both ends included."""
    if not low <= value <= high:
        raise Misconfigured(f"{name} must lie in {low:g}..{high:g}, not {value:g}.")


FORMER = {"clip": "clip_norm", "multiplier": "noise_multiplier"}
"""What plans once called the settings of Gaussian noise."""


def check_gaussian(clip_norm: float, noise_multiplier: float, delta: float, noiseless: bool = False) -> None:
    """The settings that every Gaussian mechanism has; `noiseless` admits one that only clips."""
    above("clip_norm", clip_norm, 0)
    (at_least if noiseless else above)("noise_multiplier", noise_multiplier, 0)
    above("delta", delta, 0, below=1)

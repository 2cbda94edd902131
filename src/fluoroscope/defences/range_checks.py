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

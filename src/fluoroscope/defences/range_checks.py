"""Bad settings are refused with the range that is allowed."""

import math

from fluoroscope.errors import Misconfigured


def at_least(name: str, value: float, low: float) -> None:
    """Finite, and not below `low`."""
    if not (math.isfinite(value) and value >= low):
        raise Misconfigured(f"{name} must be {low:g} or more, not {value:g}.")


def above(name: str, value: float, low: float) -> None:
    """Finite, and greater than `low`."""
    if not (math.isfinite(value) and value > low):
        raise Misconfigured(f"{name} must be above {low:g}, not {value:g}.")


def between(name: str, value: float, low: float, high: float) -> None:
    """Both ends included."""
    if not low <= value <= high:
        raise Misconfigured(f"{name} must lie in {low:g}..{high:g}, not {value:g}.")

"""Known federations that a page compares its own with, as examples/reference/measure.py wrote them: reference.json.

A kind of attack is compared with the same kind alone, by what it got of all that there was to get beyond guessing.
"""

import json
from dataclasses import dataclass
from functools import cache

from fluoroscope.findings import Kind
from fluoroscope.report.page import resource

_NEAR = 1e-9


@dataclass(frozen=True)
class Standing:
    """How many of the known federations leak less, and as much."""

    below: int
    equal: int
    all: int


@cache
def _reference() -> dict[str, object]:
    found: dict[str, object] = json.loads(resource("reference.json"))
    return found


def reference_command() -> str:
    """What measured them."""
    return str(_reference()["command"])


def known_gains(kind: Kind) -> tuple[float, ...]:
    """What this kind of attack got in each of the known federations in which it was tried."""
    federations = _reference()["federations"]
    assert isinstance(federations, list)
    return tuple(each["gains"][kind] for each in federations if kind in each["gains"])


def standing(kind: Kind, gain: float, known: tuple[float, ...] | None = None) -> Standing | None:
    """Where a gain stands among the known; None where there are too few to say.

    Example:
        >>> standing("reconstruction", 0.5, (0.0, 0.1, 0.5, 0.9, 1.0))
        Standing(below=2, equal=1, all=5)
    """
    others = known_gains(kind) if known is None else known
    if len(others) < 5:
        return None
    below = sum(other < gain - _NEAR for other in others)
    return Standing(below, sum(abs(other - gain) <= _NEAR for other in others), len(others))

"""Attacks: from an Observation to a guess. None of them can reach the truth."""

from fluoroscope.attacks import span as _span
from fluoroscope.attacks.inversion import named as _named
from fluoroscope.attacks.registry import ATTACKS, Attack

__all__ = ["ATTACKS", "Attack"]

del _named, _span

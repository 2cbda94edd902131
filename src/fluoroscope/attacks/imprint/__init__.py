"""Crafted models: a malicious server's fronts, and what it reads from the secure sum of their updates (P2)."""

from fluoroscope.attacks.imprint.adjacent import Adjacent
from fluoroscope.attacks.imprint.craft import Crafted, MediLeak
from fluoroscope.attacks.imprint.features import Brightness, SmoothContrasts, SmoothProjections
from fluoroscope.attacks.imprint.peeling import Peeling
from fluoroscope.attacks.imprint.recovered import Recovered, merged
from fluoroscope.attacks.imprint.subspace import Subspace

__all__ = [
    "Adjacent",
    "Brightness",
    "Crafted",
    "MediLeak",
    "Peeling",
    "Recovered",
    "SmoothContrasts",
    "SmoothProjections",
    "Subspace",
    "merged",
]

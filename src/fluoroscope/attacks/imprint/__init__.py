"""Crafted models: a malicious server's fronts, and what it reads from the secure sum of their updates (P2)."""

from fluoroscope.attacks.imprint.adjacent import Adjacent
from fluoroscope.attacks.imprint.craft import Crafted, MediLeak
from fluoroscope.attacks.imprint.features import Brightness, SmoothProjections
from fluoroscope.attacks.imprint.peeling import Peeling
from fluoroscope.attacks.imprint.recovered import Recovered, merged

__all__ = ["Adjacent", "Brightness", "Crafted", "MediLeak", "Peeling", "Recovered", "SmoothProjections", "merged"]

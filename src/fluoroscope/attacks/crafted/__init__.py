"""Crafted models: a malicious server's fronts, and what it reads from the secure sum of their updates (P2)."""

from fluoroscope.attacks.crafted.adjacent import Adjacent
from fluoroscope.attacks.crafted.craft import Crafted, MediLeak
from fluoroscope.attacks.crafted.features import Brightness, SmoothProjections
from fluoroscope.attacks.crafted.peeling import Peeling
from fluoroscope.attacks.crafted.recovered import Recovered, merged

__all__ = ["Adjacent", "Brightness", "Crafted", "MediLeak", "Peeling", "Recovered", "SmoothProjections", "merged"]

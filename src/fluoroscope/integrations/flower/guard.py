"""The guard as a mod. It lives with the federation, whose own studies of malicious servers use it."""

from fluoroscope.federation.guard import REFUSED, Images, Mod, Next, guard_mod

__all__ = ["REFUSED", "Images", "Mod", "Next", "guard_mod"]

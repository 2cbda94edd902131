"""The guard at the client's door: refuses models that were crafted to read images out of an update."""

from fluoroscope.defences.guard.digest import digest
from fluoroscope.defences.guard.history import History
from fluoroscope.defences.guard.inspect import inspect
from fluoroscope.defences.guard.verdict import Reason, Verdict

__all__ = ["History", "Reason", "Verdict", "digest", "inspect"]

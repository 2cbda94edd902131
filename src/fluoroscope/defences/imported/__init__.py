"""Defences read from other people's configuration: NVFlare's files, Flower's objects."""

from fluoroscope.defences.imported.flower import from_flower
from fluoroscope.defences.imported.nvflare import read_privacy_json
from fluoroscope.defences.imported.tables import plan_tables

__all__ = ["from_flower", "plan_tables", "read_privacy_json"]

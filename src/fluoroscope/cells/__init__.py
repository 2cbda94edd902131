"""Cells: settings with a result each, run on cores or on a cluster, kept when they are finished, never run twice."""

from fluoroscope.cells.cell import Cell, CellContext, Result, by_settings
from fluoroscope.cells.engine import LOCAL, ONE_BY_ONE, Engine, OnProgress, Outcome, engine_of, run_cells
from fluoroscope.cells.local import Local
from fluoroscope.cells.on_ray import Ray
from fluoroscope.cells.store import CellStore, key

__all__ = [
    "LOCAL",
    "ONE_BY_ONE",
    "Cell",
    "CellContext",
    "CellStore",
    "Engine",
    "Local",
    "OnProgress",
    "Outcome",
    "Ray",
    "Result",
    "by_settings",
    "engine_of",
    "key",
    "run_cells",
]

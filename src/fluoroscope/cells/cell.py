"""A cell of a study or an audit: settings that, with a seed, decide a result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Result:
    """What one cell gave."""

    measures: Mapping[str, float | int | None]
    curves: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    """By iteration: lists of one length."""
    images: Mapping[str, Tensor] = field(default_factory=dict)
    """What the figure shows."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Plain data beside the numbers."""


@dataclass(frozen=True)
class CellContext:
    """Where a cell works: a seed, a folder that later cells find again, and someone to tell how far it is."""

    seed: int
    folder: Path
    """Shared by the cells that are run there, so a federation is trained once. On a cluster: by those of one machine,
    unless the disk is shared too."""
    checkpoint: Path
    """This cell's own, for an attack that is killed."""
    on_progress: Callable[[float], None] = lambda fraction: None


class Cell(Protocol):
    """One setting: a frozen dataclass of plain values that, with the seed, decides the result."""

    @property
    def data(self) -> str:
        """The source of its images; of several sites, one per line."""
        ...

    @property
    def attack(self) -> object:
        """The attack with all its settings: a cell whose attack has changed is another cell."""
        ...

    @property
    def settings(self) -> dict[str, Any]:
        """The columns of its row."""
        ...

    def run(self, bench: CellContext) -> Result: ...


def by_settings(cell: Cell) -> str:
    """What people call a cell: its settings, where nobody says it better."""
    return ", ".join(str(value) for value in cell.settings.values() if value is not None)

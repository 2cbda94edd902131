"""A study is a declaration: a paper's claim, the cells that test it, the paper's numbers, how the rows are drawn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

from matplotlib.figure import Figure

from fluoroscope.cells import Cell, Result
from fluoroscope.registry import Registry

Size = Literal["small", "paper"]
"""Minutes on two cores, or the paper's scale."""
Settings = Mapping[str, Any]
Sources = str | Mapping[str, str] | None
"""The images of a user: for every cell; or by the name of a data set or of the phantom in its place."""
NONE_EMBEDDED = ""
"""The images of a cell that no phantom stands in for: it is left out unless they are given."""


class StudyCell(Cell, Protocol):
    """A cell that can be asked about a user's own images: a dataclass with a field `data`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Row:
    """A cell's settings, what it gave, and the paper's numbers for it."""

    settings: Settings
    result: Result
    paper: Mapping[str, Any] | None
    seconds: float
    """All that the cell took; a measure of that name is the attack's alone."""
    failed: str | None = None
    """Why the attack could not be run here: a finding too."""

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401  # settings are any plain value
        """A setting, or a measure; None for what a failed cell did not measure."""
        return self.settings[key] if key in self.settings else self.result.measures.get(key)


Rows = Sequence[Row]


@dataclass(frozen=True, eq=False)
class Study:
    """One table or figure of a paper."""

    name: str
    title: str
    claim: str
    """What the paper says, in a sentence or two."""
    cells: Mapping[Size, Sequence[StudyCell]]
    draw: Callable[[str, Rows], Figure]
    """(title, rows) to the figure."""
    paper: Callable[[Settings], Mapping[str, Any] | None] = lambda settings: None
    """The numbers that the paper prints for a row with these settings; never a guess from a plot."""
    curves: bool = False
    """Whether the findings hold the curves by iteration."""
    parallel: bool = False
    """Whether its cells run side by side, each on one thread. Not where they are timed."""

    def grid(self, size: Size, data: Sources) -> list[StudyCell]:
        """The cells of a size, on a user's data where it is given; none twice."""
        cells = [replace(cell, data=_source(cell, data)) for cell in self.cells[size]]
        return list(dict.fromkeys(cell for cell in cells if cell.data != NONE_EMBEDDED))


def _source(cell: StudyCell, data: Sources) -> str:
    if isinstance(data, str):
        return data
    names = (getattr(cell, "dataset", cell.data), cell.data)
    return next((data[name] for name in names if name in data), cell.data) if data else cell.data


STUDIES: Registry[Study] = Registry("studies")


def enter(*studies: Study) -> None:
    """Enter studies under their own names."""
    for study in studies:
        STUDIES.add(study.name, study)

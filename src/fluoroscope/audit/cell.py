"""What the cells of an audit have in common; those of a plan, a federation under a setting."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from fluoroscope.cells import Cell, CellContext, Result, by_settings
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.plan import Plan
from fluoroscope.federation.run import federate
from fluoroscope.federation.store import RecordStore
from fluoroscope.findings import Kind

LONGEST = 200
"""Bytes of a cell's id: its images are files of that name, with a few letters more."""


@dataclass(frozen=True)
class FoundCell(ABC):
    """One thing to try: what findings ask of it."""

    kind: ClassVar[Kind]
    threat: ClassVar[str | None] = None
    label: str
    """Of the defences."""

    @property
    @abstractmethod
    def data(self) -> str:
        """The sources of its images, one per line."""

    @property
    def attack(self) -> object:
        return None

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What tells it from others of its kind and label."""

    @abstractmethod
    def run(self, context: CellContext) -> Result:
        """A `Finding` with the images of its gallery, as `result_of` makes it."""

    @property
    def title(self) -> str:
        """For people who watch: kind, defence, and what tells it from others."""
        said = [
            f"{key} {v}" if key in ("round", "seed") else str(v) for key, v in self.settings.items() if v is not None
        ]
        return ", ".join([self.kind, f"defence {self.label}", *said])

    @property
    def id(self) -> str:
        """To find it by in the findings."""
        said = {name: value for name, value in self.settings.items() if name != "clients"}  # too many for a name
        parts = [self.kind, self.label, *(f"{value}" for value in said.values() if value is not None)]
        return "-".join(map(plain, parts))


C = TypeVar("C", bound=FoundCell)


def titled(cell: Cell) -> str:
    """What people who watch call a cell."""
    return cell.title if isinstance(cell, FoundCell) else by_settings(cell)


@dataclass(frozen=True)
class AuditCell(FoundCell):
    """One thing to try on a planned federation."""

    plan: str
    """Of the federation, as JSON: a cell is plain values."""

    @property
    def federation(self) -> Plan:
        return Plan.model_validate_json(self.plan)

    @property
    def data(self) -> str:
        return "\n".join(self.federation.data.sources)


def trained(plan: Plan, folder: Path) -> RecordStore:
    """The federation of a plan, from the folder or trained into it."""
    return federate(plan, folder / "federations" / plan.fingerprint[:16])


def plain(text: str) -> str:
    """As it stands in a cell's id and in names of files: small letters, digits and hyphens."""
    return "".join(c if c.isalnum() else "-" for c in text.lower()).strip("-")


def told_apart(cells: Sequence[C]) -> list[C]:
    """The cells, once it is known that each has an id of its own that can be the name of a file.

    Raises:
        Misconfigured: Two would be taken for one another in the findings.
    """
    seen: set[str] = set()
    for cell in cells:
        if cell.id in seen:
            raise Misconfigured(
                f"two cells would both be called {cell.id!r}: attacks, rounds and clients are named once, and clients "
                "differ in more than punctuation."
            )
        if len(cell.id.encode()) > LONGEST:
            raise Misconfigured(
                f"the name {cell.id[:60]!r}... of a cell has {len(cell.id.encode())} bytes, and at most {LONGEST} fit "
                "into a file's name; shorten labels and clients."
            )
        seen.add(cell.id)
    return list(cells)

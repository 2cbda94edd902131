"""What the cells of an audit have in common; those of a plan, a federation under a setting."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fluoroscope.cells import Cell, CellContext, Result, by_settings
from fluoroscope.federation.plan import Plan
from fluoroscope.federation.run import federate
from fluoroscope.federation.store import RecordStore
from fluoroscope.findings import Kind


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
        return "-".join("".join(c if c.isalnum() else "-" for c in part.lower()).strip("-") for part in parts)


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

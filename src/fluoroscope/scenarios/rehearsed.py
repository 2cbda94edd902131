"""How one attack did in a rehearsal, kept on disk: one that was killed tries no attack twice."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from fluoroscope import strict_json
from fluoroscope.atomic_write import make_folder, write_text
from fluoroscope.digest import digest
from fluoroscope.scores.intervals import Interval


@dataclass(frozen=True)
class Rehearsed:
    """How one attack did on the simulated clients."""

    name: str
    applies: bool
    reason: str = ""
    """Why it does not apply, gave up or was left out, or how it was cut."""
    leak: Interval | None = None
    """RDLV beyond the null; None where there was no guess to score."""
    told_apart: Interval | None = None
    chance: float | None = None
    p_value: float | None = None
    seconds: float = 0.0
    """Of processors."""


@dataclass(frozen=True)
class KeptRehearsals:
    """A folder with a file per row; without one nothing is kept."""

    folder: Path | None
    about: str
    """What a row depends on beside its attack: the round, the public images, the effort and the seed."""

    def once(self, name: str, attack: object, rehearse: Callable[[], Rehearsed]) -> Rehearsed:
        """The row of this attack; a file that cannot be read counts as not there."""
        if self.folder is None:
            return rehearse()
        path = self.folder / f"{digest(self.about, name, attack)[:24]}.json"
        try:
            return read_row(strict_json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            row = rehearse()
        make_folder(self.folder)
        write_text(path, strict_json.dumps(asdict(row)))
        return row


def read_row(row: Any) -> Rehearsed:  # noqa: ANN401  # JSON is any of its own types
    """From what `asdict` and JSON made of it; a number that JSON could not hold is NaN again.

    Raises:
        ValueError: it is something else.
    """
    try:
        intervals = {key: _with_nan(row[key]) for key in ("leak", "told_apart")}
        return TypeAdapter(Rehearsed).validate_python({**row, **intervals})
    except (TypeError, KeyError, AttributeError) as problem:
        raise ValueError(f"this is no row of a rehearsal ({problem!r})") from problem


def _with_nan(ends: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if ends is None else {end: math.nan if value is None else value for end, value in ends.items()}

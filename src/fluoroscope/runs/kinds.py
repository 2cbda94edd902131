"""What kind of run a folder holds, and which of its files are made of patients' images."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluoroscope import strict_json
from fluoroscope.errors import BadInput

GOING = ".fluoroscope-removed"
"""Where things go before they are deleted: what is in it was decided on, and a second call deletes it."""
MOST_BYTES = 2**28
"""Of a file that is looked into."""
_CELL = re.compile(r"\.?[0-9a-f]{24}\.(json|safetensors)(\.part)?")
_CELLS = ("cells", "checkpoints", "federations", "learned", "rehearsed", "shadows")
"""What cells keep: reconstructions, updates, and what attackers learned from them."""


@dataclass(frozen=True)
class RunKind:
    """One kind of folder."""

    name: str
    patients: tuple[str, ...]
    """Patterns of what goes. All else stays: numbers, tables, and what is not ours."""
    page: str | None = None
    """A page with images, which is written again without them."""


FEDERATION = RunKind(
    "federation", ("rounds/*/*.safetensors", "rounds/.*", "plan.private.json", ".plan.private.json.part")
)
AUDIT = RunKind("audit", ("gallery", *_CELLS, "report.pdf", ".report.pdf.part"), "report.html")
CALIBRATION = RunKind("calibration", (*_CELLS, "tried", "with", "without"))
STUDIES = RunKind("studies", (*_CELLS, "*/*/figure.png", "*/*/figure.svg"))
ATTACK = RunKind("attack", ("reconstruction.*", ".reconstruction.*"))
MEDILEAK = RunKind("medileak", ("recovered.*", ".recovered.*"))
UNFINISHED = RunKind("audit or study that was not finished", ("gallery", *_CELLS))
INSIDE = ("calibration", "attacks/*")
"""Where `calibrate` and `attack` put their own runs, in the folder of the records that they were given."""

_BY_KEYS: tuple[tuple[RunKind, str, Callable[[Mapping[str, Any]], bool]], ...] = (
    (FEDERATION, "run.json", lambda found: "architecture" in found and "fingerprint" in found),
    (CALIBRATION, "calibration.json", lambda found: "target" in found and "defences" in found),
    (AUDIT, "findings.json", lambda found: "format" in found and "cells" in found and "threats" in found),
    (ATTACK, "findings.json", lambda found: "attack" in found and "objective" in found),
    (MEDILEAK, "findings.json", lambda found: "victims" in found and "refused" in found),
)


def kind_of(folder: Path) -> RunKind:
    """What wrote the folder.

    Raises:
        BadInput: nothing of ours did, or it is a link, or what says so cannot be read.
    """
    if folder.is_symlink():
        raise BadInput(f"{folder} is a link: name the folder itself, {folder.resolve()}.")
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder.")
    for kind, name, fits in _BY_KEYS:
        if fits(_object(folder / name)):
            return kind
    if any("study" in _object(path) for path in sorted(folder.glob("*/*/findings.json"))[:1]):
        return STUDIES
    if (folder / GOING).is_dir() or _holds_cells(folder / "cells"):
        return UNFINISHED
    raise BadInput(
        f"{folder} holds no run of fluoroscope that can be recognised (a readable run.json, findings.json or "
        "calibration.json), so nothing in it is touched."
    )


def _holds_cells(folder: Path) -> bool:
    """Whether every file has the name of a cell: their folder is removed as a whole."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    names = [path.name for path in folder.iterdir()]
    return bool(names) and all(_CELL.fullmatch(name) for name in names)


def _object(path: Path) -> Mapping[str, Any]:
    """A JSON object in a plain file; empty where there is none."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_BYTES:
        return {}
    try:
        found = strict_json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}

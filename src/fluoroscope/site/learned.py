"""What a meter learned, kept for the next update of the same training: simulated rounds, and which attack does best.

Of the site's own images and of its update nothing is written here.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from fluoroscope import strict_json
from fluoroscope.atomic_write import make_folder, write_text
from fluoroscope.digest import digest
from fluoroscope.scenarios.rehearsed import Rehearsed, read_row
from fluoroscope.types import LabelledImages, Observation

_NAME = "rehearsed.json"
_FORMAT = 1
_KEPT = 4
"""Global models whose learning is kept: a federation comes back with another one every round."""
_BEGIN = "learned-"


@dataclass(frozen=True)
class Learned:
    """A rehearsal as it was kept."""

    rows: tuple[Rehearsed, ...]
    learning: int
    """Public images that were learned from."""
    victims: int
    seconds: float
    """The budget that it was done in."""
    left_out: tuple[str, ...]


@contextmanager
def folder_for(kept: Path | None, seen: Observation, public: LabelledImages, seed: int) -> Iterator[Path]:
    """Where all that is learned for this training on these public images is, or will be."""
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="fluoroscope-meter-") as temporary:
            yield Path(temporary)
        return
    key = digest(
        _FORMAT,
        seen.network,
        seen.training,
        seen.state_before,
        seen.buffers_before,
        sorted(seen.update or {}),
        sorted(seen.buffers_after or {}),
        seen.defence,
        public,
        seed,
    )
    folder = kept / f"{_BEGIN}{key[:24]}"
    make_folder(folder)
    folder.touch()  # used last
    yield folder
    _forget(kept)


def read_learned(folder: Path) -> Learned | None:
    """What an earlier meter found out; a file that cannot be read counts as not there."""
    try:
        found = strict_json.loads((folder / _NAME).read_text(encoding="utf-8"))
        rows = tuple(read_row(each) for each in found["rows"])
        left_out = tuple(map(str, found["left_out"]))
        return Learned(rows, int(found["learning"]), int(found["victims"]), float(found["seconds"]), left_out)
    except (OSError, ValueError, KeyError, TypeError, OverflowError):  # the last: a whole number that is infinite
        return None


def write_learned(folder: Path, learned: Learned) -> None:
    """For the next time."""
    write_text(folder / _NAME, strict_json.dumps(asdict(learned)))


def _forget(kept: Path) -> None:
    """All but what was used last: simulated rounds of every global model would fill a disk."""
    found = sorted(kept.glob(f"{_BEGIN}*"), key=lambda folder: folder.stat().st_mtime_ns)
    for folder in found[:-_KEPT]:
        shutil.rmtree(folder, ignore_errors=True)

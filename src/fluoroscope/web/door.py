"""The ledger of a site's door, as a page shows it: whether its chain is whole, and the last decisions."""

from dataclasses import dataclass
from pathlib import Path

from fluoroscope.errors import Refused
from fluoroscope.site.entry import Entry
from fluoroscope.site.ledger import Verified, verify_ledger
from fluoroscope.web.guarded_files import MOST_BYTES

_SHOWN = 200
_KEPT: dict[Path, tuple[tuple[int, int], Verified]] = {}
"""The last reading of each ledger: a chain is checked again where its file has changed."""


@dataclass(frozen=True)
class Decided:
    """One line."""

    number: int
    time: str
    run: str
    round: int
    way: str
    decision: str
    guard: str
    meter: str
    epsilon: str
    reasons: str


@dataclass(frozen=True)
class Door:
    """What a ledger says."""

    lines: int
    head: str
    broken: str
    interrupted: bool
    answers: dict[str, int]
    """How often each was given."""
    last: tuple[Decided, ...]
    """The latest first."""


def read_door(path: Path) -> Door:
    """The ledger in this file.

    Raises:
        BadInput: the file cannot be read.
        Refused: it is no plain file.
    """
    found = _verified(path)
    answers = {answer: sum(e.decision == answer for e in found.entries) for answer in ("send", "warn", "withhold")}
    last = tuple(_decided(entry) for entry in reversed(found.entries[-_SHOWN:]))
    return Door(len(found.entries), found.head, found.broken, found.interrupted, answers, last)


def _verified(path: Path) -> Verified:
    if not path.is_file() or path.stat().st_size > MOST_BYTES:
        raise Refused(f"{path.name!r} is no plain file of at most {MOST_BYTES} bytes.")
    seen = (path.stat().st_mtime_ns, path.stat().st_size)
    if path not in _KEPT or _KEPT[path][0] != seen:
        _KEPT[path] = (seen, verify_ledger(path))
    return _KEPT[path][1]


def _decided(entry: Entry) -> Decided:
    guard = entry.guard
    looked = "–" if guard is None else ", ".join(guard.checks) or ("run" if guard.ran else "by weights")
    read = [f"{each.leak} {'not judged' if each.value is None else f'{each.value:.3g}'}" for each in entry.meter]
    return Decided(
        entry.sequence,
        entry.time[:19].replace("T", " "),
        entry.run,
        entry.round,
        {"in": "comes in", "out": "goes out"}[entry.direction],
        entry.decision,
        looked,
        ", ".join(read) or "–",
        "–" if entry.epsilon is None else f"{entry.epsilon:.3g}",
        " ".join(entry.reasons),
    )

"""A federation as its files tell of it: the rounds so far, and whether somebody is at work on the next one.

Read as plain JSON (the layout: federation/store.py), since what trains networks takes seconds to import.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from fluoroscope import strict_json
from fluoroscope.errors import BadInput
from fluoroscope.web.guarded_files import Root

_PATIENCE = 60.0
"""Seconds without a new round after which a federation that nobody holds the lock of counts as stopped."""


@dataclass(frozen=True)
class Round:
    """One whole round; 0 is where the federation starts."""

    number: int
    clients: int
    loss: float | None
    """Mean training loss."""
    accuracy: float | None
    """Mean validation accuracy."""
    seconds: float | None


@dataclass(frozen=True)
class Federation:
    """What the folder of a federation says."""

    planned: int
    clients: tuple[str, ...]
    rounds: tuple[Round, ...]
    finished: bool
    locked: bool
    """Whether a process holds it."""
    updated: float | None
    """When the last round became whole."""

    @property
    def _usual(self) -> float | None:
        """Seconds of a round."""
        return median(known) if (known := [r.seconds for r in self.rounds if r.number and r.seconds]) else None

    def running(self, now: float) -> bool:
        """Held by a process, or, where a deployed server keeps no lock, with a round not long ago."""
        patience = max(_PATIENCE, 3 * (self._usual or 0.0))
        return self.locked or (self.updated is not None and not self.finished and now - self.updated < patience)

    def seconds_left(self, now: float) -> float | None:
        """By the usual time of a round."""
        done = max((each.number for each in self.rounds), default=0)
        if self._usual is None:
            return None
        gone = 0.0 if self.updated is None else min(max(now - self.updated, 0.0), self._usual)
        return max((self.planned - done) * self._usual - gone, 0.0)


def read_federation(root: Root, folder: Path) -> Federation:
    """All rounds that are whole.

    Raises:
        BadInput: run.json is missing or damaged.
    """
    header = _json(root, folder / "run.json")
    numbers = sorted(int(path.name) for path in folder.glob("rounds/[0-9]*") if path.name.isdecimal())
    rounds = tuple(_round(root, folder / "rounds" / f"{number:04d}", number) for number in numbers)
    last = folder / "rounds" / f"{numbers[-1]:04d}" if numbers else folder / "run.json"
    planned, clients = header.get("plan", {}).get("rounds"), header.get("clients")
    if not isinstance(planned, int) or not isinstance(clients, list):
        raise BadInput(f"{folder / 'run.json'} does not say how many rounds and clients there are.")
    return Federation(
        planned,
        tuple(map(str, clients)),
        rounds,
        root.has(folder / "result.json"),
        _is_locked(folder.with_name(f".{folder.name}.lock")),
        last.stat().st_mtime,
    )


_ROUNDS: dict[tuple[Path, int], Round] = {}
"""A whole round never changes, so its files are read once."""


def _round(root: Root, folder: Path, number: int) -> Round:
    key = (folder, folder.stat().st_mtime_ns)
    if key not in _ROUNDS:
        if len(_ROUNDS) > 50_000:
            _ROUNDS.clear()
        _ROUNDS[key] = _read_round(root, folder, number)
    return _ROUNDS[key]


def _read_round(root: Root, folder: Path, number: int) -> Round:
    manifest = _json(root, folder / "manifest.json")
    entries = list(manifest.get("clients", {}).values())
    losses = [each["loss"] for each in entries if each.get("loss") is not None]
    scored = [each["accuracy"] or 0.0 for each in manifest.get("validation", {}).values()]
    timing = _json(root, folder / "timing.json") if root.has(folder / "timing.json") else {}
    return Round(
        number,
        len(entries),
        fmean(losses) if losses else None,
        fmean(scored) if scored else None,
        timing.get("seconds"),
    )


def _json(root: Root, path: Path) -> dict[str, Any]:
    try:
        content = strict_json.loads(root.read(path))
    except ValueError as problem:
        raise BadInput(f"{path} is damaged and cannot be read.") from problem
    if not isinstance(content, dict):
        raise BadInput(f"{path} holds no object with keys.")
    return content


def _is_locked(path: Path) -> bool:
    """Whether a process trains there: the system opens the lock when its holder dies, however that was."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a disk without locks
        return False
    finally:
        os.close(handle)  # and with it our own share of the lock, which a holder would wait for
    return False

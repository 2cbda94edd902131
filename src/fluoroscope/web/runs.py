"""Which runs lie below a folder: told by the files that each kind leaves, and named by a digest of their path."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fluoroscope import progress_file
from fluoroscope.errors import FluoroscopeError
from fluoroscope.progress_file import RunProgress
from fluoroscope.web.guarded_files import Root

Kind = Literal["audit", "federation", "calibration", "study"]
DEEPEST = 6
MOST_RUNS = 2000
_MOST_FOLDERS = 20_000
_LONGEST_PROGRESS = 65536
_PARTS = frozenset(
    ["cells", "checkpoints", "federations", "rounds", "gallery", "tried", "rehearsed", "with", "without", "learned"]
)
"""Folders that a run keeps its parts in: what lies there is no run of its own."""


@dataclass(frozen=True)
class Run:
    """One run: where it is, and what kind of thing."""

    id: str
    name: str
    """Its path below the folder that is watched."""
    folder: Path
    kind: Kind


@dataclass(frozen=True)
class LedgerFile:
    """The ledger of a site's door."""

    id: str
    name: str
    path: Path


@dataclass(frozen=True)
class Found:
    """All that there is to show."""

    runs: tuple[Run, ...]
    ledgers: tuple[LedgerFile, ...]
    more: bool = False
    """Whether there are runs beyond those that are shown."""


def find(root: Root, ledgers: tuple[Path, ...] = ()) -> Found:
    """The runs and ledgers below the folder, by name; `ledgers` are files elsewhere that were named at the start."""
    runs: list[Run] = []
    files = [LedgerFile(_id("ledger", str(path)), path.name, path) for path in ledgers]
    more = False
    for number, (folder, names, subfolders) in enumerate(_walk(root.folder, 0)):
        if number >= _MOST_FOLDERS or len(runs) >= MOST_RUNS:
            more = True
            break
        shown = "." if folder == root.folder else folder.relative_to(root.folder).as_posix()
        if (kind := _kind(root, folder, names, subfolders)) is not None:
            runs.append(Run(_id("run", shown), root.folder.name if shown == "." else shown, folder, kind))
        for name in sorted(each for each in names if each.endswith(".jsonl") and "ledger" in each.lower()):
            path = folder / name
            if root.has(path):
                inner = name if shown == "." else f"{shown}/{name}"
                files.append(LedgerFile(_id("ledger", inner), inner, path))
    return Found(tuple(sorted(runs, key=lambda run: run.name)), tuple(sorted(files, key=lambda f: f.name)), more)


def _id(kind: str, name: str) -> str:
    """What an address says of it: nothing in an address is ever joined to a path."""
    return hashlib.sha256(f"{kind} {name}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _walk(folder: Path, depth: int) -> Iterator[tuple[Path, frozenset[str], frozenset[str]]]:
    """Each folder with the names of its files and of its own subfolders, those of a run's parts left out. Links to
    folders are not followed: a run is shown where it is."""
    try:
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError:  # removed since, or not ours to read
        return
    inner = frozenset(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    yield folder, frozenset(entry.name for entry in entries) - inner, inner
    if depth < DEEPEST:
        for name in sorted(inner - _PARTS):
            if not name.startswith("."):
                yield from _walk(folder / name, depth + 1)


def _kind(root: Root, folder: Path, names: frozenset[str], subfolders: frozenset[str]) -> Kind | None:
    if "run.json" in names or "rounds" in subfolders:
        return "federation"
    if "calibration.json" in names or "tried" in subfolders:
        return "calibration"
    if progress_file.NAME in names or "findings.json" in names:
        return _by_content(root, folder, names)
    # An audit of a version that wrote no progress, stopped; cells beside studies are theirs.
    return "audit" if "cells" in subfolders and "federations" in subfolders and not subfolders & _STUDIES else None


_STUDIES = frozenset(["p1", "p2", "p3", "p4", "frontier"])


def _by_content(root: Root, folder: Path, names: frozenset[str]) -> Kind:
    """Audits and studies both leave findings.json; a study has its table beside it, or says what it is."""
    if "table.md" in names:
        return "study"
    try:
        said = told_in(root, folder)
    except FluoroscopeError:  # shown as an audit that is broken
        said = None
    return "audit" if said is None else said.kind


def told_in(root: Root, folder: Path) -> RunProgress | None:
    """What the run in this folder says of its progress; None where it says nothing."""
    path = folder / progress_file.NAME
    if not os.path.lexists(path):
        return None
    return progress_file.parse_progress(root.read(path, _LONGEST_PROGRESS), path)

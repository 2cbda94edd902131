"""The files of a run's folder. No link is followed, and a run inside it is a run of its own."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MANIFEST = "run-manifest.json"
_PASSING = (".part", ".lock")
"""Files of writers that are at work, or were killed."""


@dataclass(frozen=True)
class Files:
    """What a folder holds, by names relative to it, in order."""

    plain: tuple[str, ...]
    links: tuple[str, ...]
    """And whatever else is no plain file: pipes, sockets."""
    runs: tuple[str, ...]
    """Folders inside it that have a manifest of their own; what is in them is theirs."""


def files_of(folder: Path) -> Files:
    """All files of a run but its manifest and those that are not finished."""
    found: dict[str, list[str]] = {"plain": [], "links": [], "runs": []}
    for name, kind in _walked(folder, ""):
        found[kind].append(name)
    return Files(*(tuple(sorted(found[kind])) for kind in ("plain", "links", "runs")))


def _walked(folder: Path, above: str) -> Iterator[tuple[str, str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = above + entry.name
            if entry.is_dir(follow_symlinks=False):
                own = (Path(entry.path) / MANIFEST).is_file()
                yield from [(name, "runs")] if own else _walked(Path(entry.path), f"{name}/")
            elif not entry.is_file(follow_symlinks=False):
                yield name, "links"
            elif name != MANIFEST and not (entry.name.startswith(".") and entry.name.endswith(_PASSING)):
                yield name, "plain"

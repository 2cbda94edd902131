"""What of a run is patients', and its removal: in an order that a kill cannot spoil, and without following a link."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from fluoroscope.atomic_write import sync
from fluoroscope.errors import BadInput, FluoroscopeError
from fluoroscope.runs.kinds import FEDERATION, GOING, INSIDE, RunKind, kind_of
from fluoroscope.runs.manifest import read_manifest, renew, save


class Going(NamedTuple):
    """One file or folder that is removed."""

    path: Path
    files: int
    bytes: int
    link: bool = False
    """A link goes; what it points to stays."""


@dataclass(frozen=True)
class Cleaning:
    """What would be removed from one run."""

    folder: Path
    kind: RunKind
    going: tuple[Going, ...]

    @property
    def page(self) -> Path | None:
        """A page that is written again without images."""
        path = None if self.kind.page is None else self.folder / self.kind.page
        return path if path is not None and path.is_file() and not path.is_symlink() else None

    @property
    def stays(self) -> tuple[str, ...]:
        """The names that are left in the folder."""
        gone = {each.path for each in self.going}
        return tuple(sorted(path.name for path in self.folder.iterdir() if path not in gone))


def cleaning_of(folder: Path) -> list[Cleaning]:
    """What is patients' in the run and in the runs inside it; nothing is changed.

    Raises:
        BadInput: the folder holds no run.
    """
    kind = kind_of(folder)
    found = [Cleaning(folder, kind, tuple(_going(path) for path in _matching(folder, (*kind.patients, GOING))))]
    inside = _matching(folder, INSIDE) if kind is FEDERATION else []
    for path in inside:
        if path.is_dir() and not path.is_symlink():
            found += _inside(path)
    return found


def clean(cleaning: Cleaning, write_page: Callable[[Path], object]) -> None:
    """Remove it. `write_page` writes the page of the folder, whose images are gone by then; where it cannot, the page
    goes too.

    The manifest names what stays, by the digests that it had; its signature, if it had one, is of files that are gone.
    """
    folder, going = cleaning.folder, cleaning.folder / GOING
    if going.is_symlink() or (going.exists() and not going.is_dir()):
        going.unlink()
    going.mkdir(mode=0o700, exist_ok=True)
    for each in cleaning.going:
        if each.path != going:
            _move(each.path, going)  # at once, however much is in it
    sync(folder)
    if cleaning.page is not None:
        try:
            write_page(folder)
        except FluoroscopeError:
            _move(cleaning.page, going)
    shutil.rmtree(going)
    sync(folder)
    _list_what_stays(cleaning)


def _move(path: Path, going: Path) -> None:
    path.rename(Path(tempfile.mkdtemp(dir=going)) / "removed")


def _list_what_stays(cleaning: Cleaning) -> None:
    folder, patients = cleaning.folder, cleaning.kind.patients
    try:
        manifest = read_manifest(folder)
    except BadInput:  # there is none, or nobody can say what it was
        return
    stays = {name: found for name, found in manifest.files.items() if not _is_patients(name, patients)}
    if (cleaning.kind.page in stays) and cleaning.page is None:
        del stays[str(cleaning.kind.page)]
    if stays == manifest.files and cleaning.page is None:
        return
    save(folder, replace(manifest, files=stays, signature=None))
    renew(folder, [] if cleaning.page is None else [cleaning.page])


def _is_patients(name: str, patterns: Iterable[str]) -> bool:
    """Whether the file, or a folder that it lies in, is one that goes."""
    path = PurePosixPath(name)
    return any(fnmatchcase(str(each), pattern) for each in (path, *path.parents) for pattern in patterns)


def _inside(folder: Path) -> list[Cleaning]:
    try:
        return cleaning_of(folder)
    except BadInput:  # somebody's own, or a search that has not ended
        return []


def _matching(folder: Path, patterns: Iterable[str]) -> list[Path]:
    """Paths below the folder: none through a link, and none inside another."""
    found = {path for pattern in patterns for path in folder.glob(pattern)}
    return sorted(path for path in found if not any(up in found or up.is_symlink() for up in _above(path, folder)))


def _above(path: Path, folder: Path) -> list[Path]:
    return [up for up in path.parents if up != folder and up.is_relative_to(folder)]


def _going(path: Path) -> Going:
    if path.is_symlink():
        return Going(path, 1, 0, link=True)
    if not path.is_dir():
        return Going(path, 1, path.stat().st_size)
    sizes = [
        (Path(where) / name).lstat().st_size for where, _, names in os.walk(path, followlinks=False) for name in names
    ]
    return Going(path, len(sizes), sum(sizes))

"""Who works in a run's folder: a lock beside it, which the system opens when its holder dies."""

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from fluoroscope.atomic_write import is_private, make_folder
from fluoroscope.errors import BadInput
from fluoroscope.progress_file import read_progress


def run_lock(out: Path) -> BaseFileLock:
    """Beside the folder, which holds records only."""
    folder = out.absolute()
    make_folder(folder.parent)
    if os.access(folder.parent, os.W_OK):
        lock = folder.with_name(f".{folder.name}.lock")
        return FileLock(lock, mode=0o600) if is_private(folder.parent) else FileLock(lock)
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return FileLock(Path(tempfile.gettempdir()) / f"fluoroscope-{name}.lock")


@contextmanager
def held_alone(folder: Path, *inside: Path) -> Iterator[None]:
    """While this runs nobody trains in the folder.

    Raises:
        BadInput: somebody does, or an audit, a study or a search runs there, or in one of those inside.
    """
    for each in (folder, *inside):
        if _runs(each):
            raise BadInput(f"{each} is at work: a process runs in it. Wait until it has ended, or stop it.")
    lock = run_lock(folder)
    try:
        lock.acquire(timeout=0)
    except Timeout as problem:
        raise BadInput(
            f"{folder} is at work: a process trains in it. Wait until it has ended, or stop it."
        ) from problem
    try:
        yield
    finally:
        lock.release()


def _runs(folder: Path) -> bool:
    try:
        told = read_progress(folder)
    except BadInput:  # damaged: nobody can say
        return False
    return told is not None and told.standing(time.time()) == "running"

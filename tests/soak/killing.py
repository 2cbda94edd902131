"""kill -9 at a file operation: a process counts what it writes, renames and removes in a folder, and ends at the n-th.

Python's audit events come before the operation, so all earlier ones are done and this one is not. Where a delay is
given it ends a moment later, perhaps with half a file on disk.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.forked import Ended, Limits, forked

_CHANGES = {
    "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.utime",
    "shutil.rmtree", "shutil.copyfile", "shutil.move",
}  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
PATIENCE = 900.0


@dataclass(frozen=True)
class Kill:
    """When a process is killed: at the n-th operation, or so many seconds after it."""

    at: int
    delay: float = 0.0


def run_and_kill(run: Callable[[], object], folder: Path, kill: Kill | None, scratch: Path) -> Ended:
    """Run it in a process of its own; without a kill the last line of its errors says how many operations it did."""
    counted = 0

    def hook(event: str, arguments: tuple) -> None:
        nonlocal counted
        if event == "open":
            writes = isinstance(arguments[2], int) and bool(arguments[2] & _WRITING)
        else:
            writes = event in _CHANGES
        if not writes or not _below(arguments[0], folder):
            return
        counted += 1
        if kill is not None and counted == kill.at:
            if kill.delay:
                threading.Thread(target=_later, args=(kill.delay,), daemon=True).start()
            else:
                os.kill(os.getpid(), signal.SIGKILL)

    def inside() -> None:
        sys.addaudithook(hook)
        try:
            run()
        finally:
            print(f"operations: {counted}", file=sys.stderr)

    return forked(inside, scratch, Limits(None, None, PATIENCE))


def operations(ended: Ended) -> int:
    """That a run which was not killed did."""
    return int(ended.err.rpartition("operations: ")[2].split()[0])


def _later(delay: float) -> None:
    time.sleep(delay)
    os.kill(os.getpid(), signal.SIGKILL)


def _below(path: object, folder: Path) -> bool:
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    return isinstance(path, str | os.PathLike) and os.path.abspath(path).startswith(str(folder))

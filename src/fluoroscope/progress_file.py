"""How far a run is, in a small file beside its results: the run writes it, whoever watches reads it.

The file is replaced whole, about once per second. A run that is killed cannot say so. On its own machine it is known by
its process (number and time of start, since numbers are used again); on others by the age of its last news.
"""

import hashlib
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fluoroscope.atomic_write import make_folder, replace_text
from fluoroscope.errors import BadInput, FluoroscopeError

NAME = "progress.json"
Kind = Literal["audit", "calibration", "study"]
State = Literal["running", "finished", "failed", "stopped"]
Tell = Callable[[float, float, str], None]
"""(done, of how much, what runs)."""
_FOLDERS = re.compile(r"(?<![\w./~-])~?/(?!/)(?:[^\s/'\"<>|:;,()\[\]]+/)+")
_EVERY = 1.0
"""Seconds between two writes."""
_PATIENCE = 60.0
"""Seconds without news after which a run on another machine counts as stopped."""


class RunProgress(BaseModel):
    """What the file says."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    format: Literal[1] = 1
    kind: Kind
    state: State = "running"
    done: float = Field(default=0.0, ge=0)
    total: float = Field(default=0.0, ge=0)
    found: float = Field(default=0.0, ge=0)
    """Of `done`, what an earlier run had finished."""
    what: str = Field(default="", max_length=400)
    reason: str = Field(default="", max_length=2000)
    """Why it failed."""
    began: float
    updated: float
    """Both in seconds of the wall clock."""
    expected: float | None = None
    """Seconds that all of it was forecast to take."""
    budget: float | None = None
    """Seconds that it may take."""
    pid: int = Field(gt=0)
    started: str | None = None
    """When that process began, as its system counts."""
    machine: str

    @property
    def fraction(self) -> float:
        return min(self.done / self.total, 1.0) if self.total else 0.0

    def standing(self, now: float) -> State:
        """What it is doing: a run that says that it is running and is not there any more was stopped."""
        if self.state != "running":
            return self.state
        if self.started is not None and self.machine == _machine():
            return "running" if self.started == _started(self.pid) else "stopped"
        return "running" if now - self.updated < _PATIENCE else "stopped"

    def seconds_left(self, now: float) -> float | None:
        """By its own speed, and the nearer to its start the more by what was forecast; None where neither says."""
        gone, new, all_new = max(now - self.began, 0.0), self.done - self.found, self.total - self.found
        share = min(new / all_new, 1.0) if all_new > 0 else 0.0
        by_speed = gone * (1 - share) / share if share > 0.01 else None
        by_forecast = None if self.expected is None else max(self.expected - gone, 0.0)
        if by_speed is not None and by_forecast is not None:
            left: float | None = share * by_speed + (1 - share) * by_forecast
        else:
            left = by_forecast if by_speed is None else by_speed
        if left is not None and self.budget is not None:
            left = min(left, max(self.budget - gone, 0.0))
        return left


def read_progress(folder: Path) -> RunProgress | None:
    """What a run in this folder says of itself; None where it says nothing.

    Raises:
        BadInput: the file is damaged.
    """
    path = folder / NAME
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise BadInput(f"{path} cannot be read: {problem.strerror}.") from problem
    return parse_progress(content, path)


def parse_progress(content: bytes, path: Path) -> RunProgress:
    """What the file at `path` says.

    Raises:
        BadInput: it is damaged.
    """
    try:
        return RunProgress.model_validate_json(content)
    except ValidationError as problem:
        raise BadInput(f"{path} is damaged; delete it, and run the same command again.") from problem


@contextmanager
def progress_in(folder: Path, kind: Kind, expected: float | None = None, budget: float | None = None) -> Iterator[Tell]:
    """While this runs, the folder says how far it is; afterwards, how it ended.

    Args:
        folder: of the run; made where it is not there.
        kind: what runs.
        expected: seconds that it was forecast to take.
        budget: seconds that it may take.
    """
    with suppress(OSError):
        make_folder(folder)
    now = time.time()
    first = RunProgress(
        kind=kind,
        began=now,
        updated=now,
        expected=expected,
        budget=budget,
        pid=os.getpid(),
        started=_started(os.getpid()),
        machine=_machine(),
    )
    writer = _Writer(folder / NAME, first)
    writer.write()
    beating = threading.Thread(target=writer.beat, name="fluoroscope progress", daemon=True)
    beating.start()
    state: State = "finished"
    reason = ""
    try:
        yield writer.tell
    except Exception as problem:
        state, reason = "failed", str(problem) if isinstance(problem, FluoroscopeError) else type(problem).__name__
        reason = without_folders(reason, folder)
        raise
    except BaseException:  # Ctrl-C
        state = "stopped"
        raise
    finally:
        writer.over.set()
        beating.join()
        writer.end(state, reason[:2000])


def without_folders(text: str, *known: Path) -> str:
    """The text with files by their names alone: the folders above them name a user and a server.

    Folders that are known are found however they are called, others where no space is in their names.

    Example:
        >>> without_folders("/home/anna/images/7.png: cannot be read (no file '/home/anna/x')", Path("/tmp/run"))
        "7.png: cannot be read (no file 'x')"
    """
    named = [folder.absolute() for folder in (*known, Path.home(), Path.cwd())]
    above = {each for folder in named for each in (folder, *folder.parents) if len(each.parts) > 2}
    for folder in sorted(above, key=lambda each: -len(str(each))):
        text = text.replace(f"{folder}/", "").replace(str(folder), folder.name)
    return _FOLDERS.sub("", text)


@dataclass(eq=False)
class _Writer:
    """Holds what is to be said, and says it now and then. What cannot be written is no reason to stop a run."""

    path: Path
    now: RunProgress

    def __post_init__(self) -> None:
        self.over = threading.Event()
        self._told = False

    def tell(self, done: float, total: float, what: str) -> None:
        found = self.now.found if self._told else done  # the first news are of what was there before
        self._told = True
        said = {"done": max(done, 0.0), "total": max(total, 0.0), "found": found, "what": what[:400]}
        self.now = self.now.model_copy(update=said)

    def beat(self) -> None:
        """Until it is over, on a thread of its own: a cell may say nothing for minutes."""
        while not self.over.wait(_EVERY):
            self.write()

    def end(self, state: State, reason: str) -> None:
        done = {"done": self.now.total} if state == "finished" else {}
        self.now = self.now.model_copy(update={"state": state, "reason": reason, **done})
        self.write()

    def write(self) -> None:
        said = self.now.model_copy(update={"updated": time.time()})
        with suppress(OSError):
            replace_text(self.path, said.model_dump_json(indent=1) + "\n")


def _started(pid: int) -> str | None:
    """When the process of this number began; None where there is none, or it is dead and not yet buried."""
    try:
        # After the name, which may hold anything in its brackets, the state is first and the start is twentieth.
        after_name = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return None if after_name[0] in ("Z", "X") else after_name[19]
    except (OSError, IndexError):
        return None


def _machine() -> str:
    """This start of this machine, and this room for process numbers in it, which a container has of its own: as a
    digest, since the folder may be sent to somebody who need not know the machine's name."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:32]

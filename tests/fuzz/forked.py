"""Inputs in a process that may die, forked from one that has imported everything: many of them cost little.

The process has limits on memory and on time for each, and what it printed is kept. Where one ends it, the next ones get
another process.
"""

import faulthandler
import io
import os
import resource
import select
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SECONDS = 10
"""Of processors, for one input."""
PATIENCE = 60.0
"""Seconds on the clock: others may use the machine, and a process that waits for ever uses no processor."""
MEMORY = 2 * 2**30
_TOLD = struct.Struct("<idq")
"""What the process says of an input: its exit code, its seconds and the peak so far."""


@dataclass(frozen=True)
class Ended:
    """How an input ended, and what was said."""

    code: int
    """As a shell has it; below 0 the signal that the process died of."""
    out: str
    err: str
    seconds: float
    """Of processors."""
    peak: int
    """Bytes in memory, at most; those that were there before it was forked, too."""
    late: bool = False


@dataclass(frozen=True)
class Limits:
    """None: as much as it takes."""

    seconds: int | None = SECONDS
    memory: int | None = MEMORY
    patience: float = PATIENCE


def forked(run: Callable[[], object], scratch: Path, limits: Limits | None = None) -> Ended:
    """Run it; what it returns is thrown away, `SystemExit` is its exit code, and any other error is a traceback."""
    return next(all_forked([run], [scratch], limits or Limits()))


def all_forked(runs: Sequence[Callable[[], object]], scratch: Sequence[Path], limits: Limits) -> Iterator[Ended]:
    """The same of several, one after another, in as few processes as they leave alive."""
    done = 0
    while done < len(runs):
        for ended in _some(runs[done:], scratch[done:], limits):
            done += 1
            yield ended


def _some(runs: Sequence[Callable[[], object]], scratch: Sequence[Path], limits: Limits) -> Iterator[Ended]:
    """In one process, as far as it comes."""
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        _inside(runs, scratch, limits, writer)
    os.close(writer)
    number, late = 0, False
    while number < len(runs):
        ready, _, _ = select.select([reader], [], [], limits.patience)
        if not ready:
            late = True
            os.killpg(pid, signal.SIGKILL)
            break
        told = os.read(reader, _TOLD.size)
        if len(told) < _TOLD.size:
            break
        yield _ended(scratch[number], *_TOLD.unpack(told))
        number += 1
    os.close(reader)
    _, status, used = os.wait4(pid, 0)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # those that it started
    if number < len(runs):  # the input that ended it
        code, peak = os.waitstatus_to_exitcode(status), used.ru_maxrss * 1024
        yield _ended(scratch[number], code, used.ru_utime + used.ru_stime, peak, late)


def _ended(scratch: Path, code: int, seconds: float, peak: int, late: bool = False) -> Ended:
    out, err = (path.read_bytes().decode(errors="replace") if path.exists() else "" for path in _paths(scratch))
    return Ended(code, out, err, seconds, peak, late)


def _paths(scratch: Path) -> tuple[Path, Path]:
    return scratch.with_name(f"{scratch.name}.out"), scratch.with_name(f"{scratch.name}.err")


def _inside(runs: Sequence[Callable[[], object]], scratch: Sequence[Path], limits: Limits, answers: int) -> None:
    """Of the new process: never returns."""
    code = 1
    try:
        os.setsid()
        faulthandler.disable()  # an abort is told by its signal
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if limits.memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (_mapped() + limits.memory,) * 2)
        for run, place in zip(runs, scratch, strict=True):
            began = time.process_time()
            if limits.seconds is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (int(began) + 1 + limits.seconds, resource.RLIM_INFINITY))
            code = _one(run, place)
            peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
            os.write(answers, _TOLD.pack(code, time.process_time() - began, peak * 1024))
    finally:
        os._exit(code)


def _one(run: Callable[[], object], place: Path) -> int:
    for number, path in zip((1, 2), _paths(place), strict=True):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, number)
        os.close(handle)
    texts = [io.TextIOWrapper(os.fdopen(os.dup(n), "wb"), "utf-8", "backslashreplace") for n in (1, 2)]
    sys.stdout, sys.stderr = texts
    try:
        run()
        return 0
    except SystemExit as problem:
        return problem.code if isinstance(problem.code, int) else 0 if problem.code is None else 1
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        for each in texts:
            each.flush()


def _mapped() -> int:
    """Bytes of addresses that are taken already: libraries, for the most part."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

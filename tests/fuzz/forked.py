"""One input in a process of its own, forked from one that has imported everything: quick, and it may die.

The process has limits on memory and on time, and what it printed is kept.
"""

import io
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SECONDS = 10
"""Of processors, for one input."""
PATIENCE = 60.0
"""Seconds on the clock: others may use the machine, and a process that waits for ever uses no processor."""
MEMORY = 2 * 2**30


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it said."""

    code: int
    """As a shell has it; below 0 the signal that it died of."""
    out: str
    err: str
    seconds: float
    """Of processors."""
    peak: int
    """Bytes in memory, at most; those that were there before it was forked, too."""
    late: bool = False


def forked(
    run: Callable[[], object],
    scratch: Path,
    seconds: int | None = SECONDS,
    memory: int | None = MEMORY,
    patience: float = PATIENCE,
) -> Ended:
    """Run it; what it returns is thrown away, `SystemExit` is its exit code, and any other error is a traceback."""
    paths = scratch.with_suffix(".out"), scratch.with_suffix(".err")
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        _inside(run, *paths, seconds, memory)
    late = _wait(pid, patience)
    _, status, used = os.wait4(pid, 0)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # those that it started
    out, err = (path.read_bytes().decode(errors="replace") for path in paths)
    return Ended(
        os.waitstatus_to_exitcode(status), out, err, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, late
    )


def _wait(pid: int, patience: float) -> bool:
    """Whether it had to be killed. It is not reaped, so its group stays its own."""
    until, pause = time.monotonic() + patience, 0.001
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > until:
            os.killpg(pid, signal.SIGKILL)
            return True
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return False


def _inside(run: Callable[[], object], out: Path, err: Path, seconds: int | None, memory: int | None) -> None:
    """Of the new process: never returns."""
    code = 1
    try:
        os.setsid()
        for number, path in ((1, out), (2, err)):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, number)
            os.close(handle)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        sys.stdout, sys.stderr = (io.TextIOWrapper(os.fdopen(n, "wb"), "utf-8", "backslashreplace") for n in (1, 2))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (_mapped() + memory,) * 2)
        run()
        code = 0
    except SystemExit as problem:
        code = problem.code if isinstance(problem.code, int) else 0 if problem.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _mapped() -> int:
    """Bytes of addresses that are taken already: libraries, for the most part."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

"""Decodes a file in a process of its own, which is kept for the next file and replaced when it dies."""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from fluoroscope import strict_json
from fluoroscope.decoders.decoded import Arrays
from fluoroscope.decoders.limits import MOST_BYTES, MOST_PIXELS, most_memory, most_seconds
from fluoroscope.errors import BadInput

_LONGEST_ANSWER = 2**16
_START = 120.0
"""Seconds that a process is given to start and to import its decoder."""
_LOOK = 1.0
"""Seconds between two looks at how long it has worked."""
_STARVED = 6
"""How many times as long as it may work it may take, where others use the machine."""
_PATIENCE = 5.0
"""Seconds that a process is given to end before it is killed."""
_PASSED = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "SYSTEMROOT", "TZ")


def decode_apart(kind: str, path: Path, **options: int) -> Arrays:
    """The images that the file holds.

    Args:
        kind: `dicom`, `nifti` or `picture`.
        path: The file; it is read by the other process alone.
        options: The decoder's own.

    Raises:
        BadInput: The file cannot be used, or its decoder died of it; the message is the reason alone.
    """
    found = _asked(kind, path, **options)
    if not isinstance(found, Arrays):
        raise BadInput("cannot be read (its decoder gave no image)")
    return found


def bytes_apart(function: str, path: Path) -> bytearray:
    """What a function of ours makes of the file, in bytes.

    Args:
        function: `package.module:name`, which takes the path and gives bytes; imported by the other process alone.
        path: The file.

    Raises:
        BadInput: As above.
    """
    found = _asked(function, path)
    if not isinstance(found, bytearray):
        raise BadInput("cannot be read (its decoder gave something else)")
    return found


def _asked(kind: str, path: Path, **options: int) -> Arrays | bytearray:
    size, question = path.stat().st_size, {"kind": kind, "path": str(path.absolute()), "options": options}
    worker = _PROCESSES.take()
    found = worker.ask(question, most_seconds(size))
    if found is None and worker.used and not worker.late:  # perhaps it was an earlier file that it died of
        worker.end()
        worker = _Worker()
        found = worker.ask(question, most_seconds(size))
    if found is None:
        raise BadInput(worker.how_it_ended(size))
    _PROCESSES.give_back(worker)
    if isinstance(found, str):
        raise BadInput(found)
    return found


class _Worker:
    """One process."""

    def __init__(self) -> None:
        self.used = False
        """Whether it has answered before."""
        self.late = False
        self._ready: set[str] = set()
        known = {name: os.environ[name] for name in _PASSED if name in os.environ}
        imports = os.pathsep.join(path for path in sys.path if os.path.isabs(path))
        single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # each thread reserves memory
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fluoroscope.decoders.process"],  # -P: imports nothing from among the images
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # decoders complain there of every damaged file
            env={**known, **single, "PYTHONPATH": imports, "PYTHONUTF8": "1"},
        )

    def ask(self, question: dict[str, Any], seconds: float) -> Arrays | bytearray | str | None:
        """The answer, the reason why there is none, or None where the process died."""
        self.late = False
        kind = question["kind"]
        if kind not in self._ready:  # what starting and importing take is not the file's fault
            if self._within(_START, {"kind": kind, "path": None}) is None:
                return None
            self._ready.add(kind)
        return self._within(seconds, question)

    def _within(self, seconds: float, question: dict[str, Any]) -> Arrays | bytearray | str | None:
        assert self._process.stdin is not None
        answered = threading.Event()
        threading.Thread(target=self._end_late, args=(seconds, answered), daemon=True).start()
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
            return self._answer()
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            OverflowError,
        ):  # it died, or its decoder wrote into what it says
            return None
        except BaseException:  # Ctrl-C: what it would answer is nobody's any more
            self.end()
            raise
        finally:
            answered.set()

    def _answer(self) -> Arrays | bytearray | str | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline(_LONGEST_ANSWER)
        if not line.endswith(b"\n"):
            return None
        said = strict_json.loads(line)
        if "reason" in said:
            return str(said["reason"])
        if "bytes" in said:
            return self._bytes(int(said["bytes"]))
        images = [self._image(shape) for shape in said["shapes"]]
        return Arrays(tuple(images), _word(said["patient"]), _word(said["site"]))

    def _image(self, shape: list[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
        assert self._process.stdout is not None
        channels, height, width = map(int, shape)
        if channels not in (1, 3) or height < 1 or width < 1 or height * width > MOST_PIXELS:
            raise ValueError(f"no image has the shape {shape}")
        content = self._bytes(4 * channels * height * width)
        return np.frombuffer(content, dtype="<f4").reshape(channels, height, width)

    def _bytes(self, size: int) -> bytearray:
        assert self._process.stdout is not None
        if not 0 <= size <= MOST_BYTES:
            raise ValueError(f"nothing has {size} bytes")
        content = bytearray(size)
        if self._process.stdout.readinto(content) != len(content):  # type: ignore[attr-defined]  # a buffered reader
            raise ValueError("the bytes ended too early")
        return content

    def _end_late(self, seconds: float, answered: threading.Event) -> None:
        """Kill it when it has worked for so long, or waited for much longer: a machine may have more to do."""
        began, used = time.monotonic(), processor_seconds(self._process.pid)
        while not answered.wait(min(seconds, _LOOK)):
            gone, now = time.monotonic() - began, processor_seconds(self._process.pid)
            worked = gone if used is None or now is None else now - used
            if worked > seconds or gone > _STARVED * seconds:
                self.late = True
                self._process.kill()
                return

    def end(self) -> None:
        """Kill it, and wait until it is gone."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # of what was not written yet
                    pipe.close()
        self._process.wait()

    def how_it_ended(self, file_bytes: int) -> str:
        """Why there is no answer, in the words of the list of files that were left out."""
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            code = 0
        self.end()
        if self.late:
            return f"takes more than {most_seconds(file_bytes):.0f} seconds to unpack, the most for its size"
        memory = f"within {most_memory(file_bytes) / 2**30:.1f} GB of memory"
        if code < 0:
            return f"cannot be read (its decoder died by {_signal(-code)}, {memory})"
        return f"cannot be read (its decoder ended with code {code}, {memory})"


class _Processes:
    """Those that wait for a file."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        self._owner, self._lock = os.getpid(), threading.Lock()

    def take(self) -> _Worker:
        """One that lives, or a new one."""
        with self._lock:
            if self._owner != os.getpid():  # a fork has the pipes of its parent's processes, and must not speak on them
                self._idle, self._owner = [], os.getpid()
            if self._idle:
                return self._idle.pop()
        return _Worker()

    def give_back(self, worker: _Worker) -> None:
        """For the next file."""
        if worker.late:  # the answer came with the alarm
            worker.end()
            return
        worker.used = True
        with self._lock:
            self._idle.append(worker)

    def end(self) -> None:
        """With this process."""
        if self._owner == os.getpid():
            while self._idle:
                self._idle.pop().end()


_PROCESSES = _Processes()
atexit.register(_PROCESSES.end)


def processor_seconds(pid: int) -> float | None:
    """What a process has used of processors; None where the system does not say."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _word(said: object) -> str | None:
    """The name of a patient or of a site; what a decoder says is as little believed as its file."""
    if said is not None and not isinstance(said, str):
        raise TypeError("a name is text")
    return said


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

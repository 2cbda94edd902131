"""An attack in a process of its own, where the truth is not: its folder holds what the attacker saw and nothing else.

The process is a fresh one, not a copy of ours, so that no image is in its memory. Its working directory is a private
folder, and neither its arguments nor its environment name the run.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from fluoroscope import strict_json
from fluoroscope.atomic_write import copy_file
from fluoroscope.attacks import Attack
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.errors import FluoroscopeError
from fluoroscope.models import Architecture
from fluoroscope.scenarios.isolated_process import CHECKPOINT, TASK, Task, read_guesses, read_problem, write_task
from fluoroscope.types import Network, Observation, Reconstruction

_PROGRAM = "from fluoroscope.scenarios.isolated_process import serve; serve()"
_PATIENCE = 5.0
"""Seconds that a process whose pipe has ended is given to end too."""
_LONGEST_LINE = 2**28
_MOST_BYTES = 2**33
"""Of a message, and of the guesses behind the last one."""
_PASSED = ("LANG", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PATH", "SYSTEMROOT", "TZ")
_PASSED_KINDS = ("CUDA", "GOMP_", "HIP_", "HSA_", "KMP_", "LC_", "MKL_", "NVIDIA_", "OMP_", "OPENBLAS_", "ROCR_")
_PASSED_OF_PYTHON = ("PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONUTF8", "PYTORCH_CUDA_ALLOC_CONF")
_THREADS = {"openblas": "OPENBLAS_NUM_THREADS", "mkl": "MKL_NUM_THREADS", "openmp": "OMP_NUM_THREADS"}


class AttackDied(FluoroscopeError):
    """The process of an attack ended before the attack did."""


class TookTooLong(AttackDied):
    """An attack was not done when its time was."""


def run_isolated(
    attack: Attack,
    observations: Sequence[Observation],
    rng: torch.Generator,
    on_iteration: Callable[[int, int], None] = lambda iteration, iterations: None,
    checkpoint: Checkpoint | None = None,
    seconds: float | None = None,
) -> list[Reconstruction]:
    """Run the attack in a fresh process that has the observations only, on as many threads as this one.

    The guesses are those of `attack.run` with a generator in the same state; `rng` itself is left as it is. Starting
    the process takes seconds, once for all observations. It ends with this process, however this one ends.

    Args:
        attack: an attack whose class can be imported; it is pickled.
        observations: what the attacker saw of each update.
        rng: of all that the attack draws.
        on_iteration: called here, with how many iterations of how many are done.
        checkpoint: where a killed attack resumes. The process has a copy of it; what it writes is brought over after
            every iteration.
        seconds: after which the process is ended; None waits for as long as it takes.

    Returns:
        A guess for each observation, on the CPU.

    Raises:
        AttackDied: the process was killed or left without a word.
        TookTooLong: the seconds were over before the attack was.
        Unsupported: the attack does not apply, or something that it is given cannot be pickled.
    """
    every_seconds = None if checkpoint is None else checkpoint.every_seconds
    sent = [replace(each, network=_found_anywhere(each.network)) for each in observations]
    task = Task(attack, sent, rng.get_state(), torch.get_num_threads(), every_seconds)
    with tempfile.TemporaryDirectory(prefix="fluoroscope-attack-", ignore_cleanup_errors=True) as private:
        folder = Path(private).resolve()  # mkdtemp's: of mode 0700
        kept = _Kept(folder / CHECKPOINT, checkpoint)
        write_task(task, folder / TASK)
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.PIPE,  # its end tells the process that we are gone
            stdout=subprocess.PIPE,
        )
        limit = _Limit(process, seconds)
        try:
            return _followed(process, getattr(attack, "name", type(attack).__name__), on_iteration, kept)
        except AttackDied as problem:
            if limit.over:
                raise TookTooLong(f"it was stopped after {seconds:.0f} s.") from problem
            raise
        finally:
            limit.cancel()
            process.kill()
            process.wait()
            kept.bring_over()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()


class _Limit:
    """Ends a process that takes too long."""

    def __init__(self, process: "subprocess.Popen[bytes]", seconds: float | None) -> None:
        self.over = False
        self._process = process
        self._timer = None if seconds is None else threading.Timer(seconds, self._end)
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        self.over = True
        self._process.kill()


class _Kept:
    """The process's own checkpoint folder, and the run's."""

    def __init__(self, theirs: Path, checkpoint: Checkpoint | None) -> None:
        self._theirs, self._ours = theirs, None if checkpoint is None else checkpoint.folder
        self._seen: dict[Path, tuple[int, int]] = {}
        if self._ours is not None:
            for path in _files(self._ours):
                copy_file(path, theirs / path.relative_to(self._ours))
            self._seen = {path: _version(path) for path in _files(theirs)}

    def bring_over(self) -> None:
        """Copy what was written since the last time, each file whole."""
        if self._ours is None:
            return
        for path in _files(self._theirs):
            if self._seen.get(path) != (version := _version(path)):
                copy_file(path, self._ours / path.relative_to(self._theirs))
                self._seen[path] = version

    @property
    def remedy(self) -> str:
        """For an attack that ended too early."""
        return "" if self._ours is None else " The next run resumes at its last checkpoint."

    def ours(self, sentence: str) -> str:
        """A sentence about a checkpoint names the file that the user has."""
        return sentence if self._ours is None else sentence.replace(str(self._theirs), str(self._ours))


def _followed(
    process: "subprocess.Popen[bytes]", name: str, on_iteration: Callable[[int, int], None], kept: _Kept
) -> list[Reconstruction]:
    assert process.stdout is not None
    garbled = f"the process of {name} said what cannot be read, so there is no guess of it.{kept.remedy}"
    while line := process.stdout.readline(_LONGEST_LINE):
        with _as_died(garbled):
            message = _message(line)
            problem = read_problem(message["raised"], kept.ours) if "raised" in message else None
        kept.bring_over()
        if "iteration" in message:
            on_iteration(*message["iteration"])
        elif problem is not None:
            raise problem
        elif len(content := process.stdout.read(message["bytes"])) == message["bytes"]:
            with _as_died(garbled):
                return read_guesses(message["guesses"], safetensors.torch.load(content))
    raise AttackDied(f"the process of {name} {_how_it_ended(process)}.{kept.remedy}")


def _message(line: bytes) -> dict[str, Any]:
    """What the process says, once it is known that it is one of three things."""
    message = strict_json.loads(line)
    if not isinstance(message, dict):
        raise TypeError("no message")
    if "iteration" in message:
        done, of = map(int, message["iteration"])
        return {"iteration": (done, of)}
    if "raised" in message:
        return {"raised": dict(message["raised"])}
    size = message["bytes"]
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _MOST_BYTES:
        raise ValueError("no number of bytes")
    return {"bytes": size, "guesses": list(message["guesses"])}


@contextmanager
def _as_died(sentence: str) -> Iterator[None]:
    """An attack is anybody's, and so is what its process says: what cannot be read is no guess."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, SafetensorError) as problem:
        raise AttackDied(sentence) from problem


def _how_it_ended(process: "subprocess.Popen[bytes]") -> str:
    try:
        code = process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        return "closed its pipe before it gave a guess"
    if code == -signal.SIGKILL:
        return "was killed before it gave a guess, perhaps for want of memory: free some, or attack fewer images"
    return f"ended {f'by signal {-code}' if code < 0 else f'with exit code {code}'} before it gave a guess"


def _environment(folder: Path) -> dict[str, str]:
    """What Python and torch need to start; nothing else is told, for it may lead into the run."""
    known = (*_PASSED, *_PASSED_OF_PYTHON)
    kept = {name: value for name, value in os.environ.items() if name in known or name.startswith(_PASSED_KINDS)}
    threads = {_THREADS[each["internal_api"]]: str(each["num_threads"]) for each in _thread_pools()}
    imports = os.pathsep.join(path for path in sys.path if os.path.isabs(path))
    return kept | threads | {"PYTHONPATH": imports} | dict.fromkeys(("HOME", "TMPDIR", "TEMP", "TMP"), str(folder))


def _thread_pools() -> list[dict[str, Any]]:
    return [each for each in threadpool_info() if each["internal_api"] in _THREADS]


def _found_anywhere(network: Network | None) -> Network | None:
    """The same network, where the path of its weights does not begin in our working directory."""
    if isinstance(network, Architecture) and network.weights is not None and Path(network.weights).is_file():
        return replace(network, weights=str(Path(network.weights).absolute()))
    return network


def _files(folder: Path) -> list[Path]:
    """Whole files of any depth: no links, and none that is still being written."""
    found = folder.rglob("*") if folder.is_dir() else ()
    return [path for path in found if path.is_file() and not path.is_symlink() and not path.name.startswith(".")]


def _version(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_mtime_ns, state.st_ino

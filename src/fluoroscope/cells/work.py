"""One cell, run: the same function in this process, on a worker and on Ray."""

import pickle
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fluoroscope import process_tuning
from fluoroscope.cells.cell import Cell, CellContext, Result
from fluoroscope.errors import FluoroscopeError, Misconfigured

ATTEMPTS = 2
"""Workers that a cell is given before it has failed."""
_TELL_EVERY = 0.2
"""Seconds between two messages about how far a cell is."""


class WorkerDied(FluoroscopeError):
    """The process that ran a cell ended before the cell did."""


def not_importable(why: object) -> Misconfigured:
    """For a worker that cannot read its job."""
    return Misconfigured(f"a worker cannot import the cell ({why}): install the package that has it there.")


class Job(NamedTuple):
    """A cell that is not finished yet, and where it works."""

    name: str
    cell: Cell
    seed: int
    folder: Path
    checkpoint: Path


@dataclass(frozen=True, eq=False)
class Failed:
    """What a cell raised."""

    problem: Exception


@dataclass(frozen=True, eq=False)
class Finished:
    """A cell's result, and the seconds that it took."""

    result: Result
    seconds: float


Ended = Finished | Failed
Endings = Generator[tuple[str, Ended], None, None]
"""Jobs by name, as they end."""
Tell = Callable[[str, float], None]
"""Hears (name, fraction) of the jobs that run."""


def work(job: Job, tell: Callable[[float], None], threads: int | None) -> Ended:
    """Run the cell on so many threads; None leaves their number as it is."""
    began = time.perf_counter()
    try:
        with _limited(threads):
            result = job.cell.run(CellContext(job.seed, job.folder, job.checkpoint, tell))
    except Exception as problem:
        return Failed(problem)
    return Finished(result, time.perf_counter() - began)


def work_elsewhere(job: Job, tell: Callable[[float], None], threads: int) -> bytes:
    """The same in a process of our own: how it ended, pickled, whatever it was.

    By plain pickle. multiprocessing's own would send tensors through shared memory that ends with the worker.
    """
    process_tuning.apply()
    ended = work(job, _now_and_then(tell), threads)
    if isinstance(ended, Failed):
        ended.problem.add_note("".join(traceback.format_exception(ended.problem)))
    try:
        sent = pickle.dumps(ended)
        pickle.loads(sent)  # some exceptions can be written and not read
    except Exception as problem:
        what = ended.problem if isinstance(ended, Failed) else problem
        sent = pickle.dumps(Failed(RuntimeError(f"{type(what).__name__}: {what}")))
    return sent


@contextmanager
def _limited(threads: int | None) -> Iterator[None]:
    """Float sums depend on the number of threads, torch's and the linear algebra's."""
    if threads is None:
        yield
        return
    before = torch.get_num_threads()
    with threadpool_limits(limits=threads):
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _now_and_then(tell: Callable[[float], None]) -> Callable[[float], None]:
    """An attack tells of every iteration; a few times a second are enough."""
    last = 0.0

    def some(fraction: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _TELL_EVERY:
            last = now
            tell(fraction)

    return some

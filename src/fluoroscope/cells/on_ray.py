"""Cells as Ray tasks, on this machine or on a cluster."""

import logging
import os
import pickle
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

from fluoroscope.cells.work import ATTEMPTS, Endings, Failed, Job, Tell, WorkerDied, not_importable, work_elsewhere
from fluoroscope.errors import Misconfigured

_LISTEN_EVERY = 0.5
"""Seconds."""


@dataclass(frozen=True)
class Ray:
    """One cell a core of the cluster, each on one thread.

    fluoroscope must be installed on every machine, and data that is files must be at the same place on each. Results
    come back to this process. What cells share, such as a federation, is shared by those of one machine, and a
    checkpoint is of use to the machine that wrote it; with a shared disk, to all.
    """

    address: str | None = None
    """Of a cluster, such as auto, 10.0.0.1:6379 or ray://10.0.0.1:10001. None: one on this machine, for this run."""

    def run(self, jobs: Sequence[Job], tell: Tell) -> Endings:
        """Each job's name with how it ended, as they end; `tell` hears how far the running ones are."""
        if jobs:  # a cluster takes seconds to start
            with _connected(self.address) as ray:
                yield from _on(ray, jobs, tell)


def _on(ray: Any, jobs: Sequence[Job], tell: Tell) -> Endings:  # noqa: ANN401  # a module
    board = ray.remote(num_cpus=0)(_Board).remote()
    # Attempts are counted here: by itself Ray tries again without end where memory is short.
    task = ray.remote(num_cpus=1, max_retries=0)(_task)
    running = {task.remote(job, board): (job, 1) for job in jobs}
    while running:
        ended, _ = ray.wait(list(running), timeout=_LISTEN_EVERY)
        unfinished = {job.name for job, _ in running.values()}
        for name, fraction in ray.get(board.read.remote()).items():
            if name in unfinished:  # news may come late
                tell(name, fraction)
        for reference in ended:
            job, attempt = running.pop(reference)
            try:
                yield job.name, pickle.loads(ray.get(reference))
            except ray.exceptions.RayTaskError as problem:  # what a cell raises is caught on the worker
                yield job.name, Failed(not_importable(str(problem).strip().rpartition("\n")[2]))
            except ray.exceptions.RayError as problem:
                if attempt < ATTEMPTS:
                    running[task.remote(job, board)] = (job, attempt + 1)
                    continue
                why = f"{ATTEMPTS} Ray workers ended while they ran it ({type(problem).__name__}), perhaps for want of"
                yield job.name, Failed(WorkerDied(f"{why} memory: see Ray's logs."))


def _task(job: Job, board: Any) -> bytes:  # noqa: ANN401  # Ray's handle
    return work_elsewhere(job, lambda fraction: board.tell.remote(job.name, float(fraction)), threads=1)


class _Board:
    """Where running cells write how far they are."""

    def __init__(self) -> None:
        self._news: dict[str, float] = {}

    def tell(self, name: str, fraction: float) -> None:
        self._news[name] = fraction

    def read(self) -> dict[str, float]:
        """What is new."""
        news, self._news = self._news, {}
        return news


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Ray, connected; left as it was found."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns of it at every start
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    import ray  # takes seconds

    if ray.is_initialized():
        yield ray
        return
    try:
        _knock(address)
        ray.init(address=address or "local", log_to_driver=False, include_dashboard=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as problem:
        raise Misconfigured(f"no Ray cluster answers at {address!r}; `ray status` shows whether one runs.") from problem
    try:
        with redirect_stdout(sys.stderr):  # where Ray would tell of dead workers, between a command's JSON
            yield ray
    finally:
        ray.shutdown()


def _knock(address: str | None) -> None:
    """Ray itself would wait for minutes where nobody listens."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host:
        socket.create_connection((host, int(port)), timeout=10).close()

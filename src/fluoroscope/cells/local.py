"""Cells on this machine: in this process, or on workers beside it."""

import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from fluoroscope.cells.work import (
    ATTEMPTS,
    Endings,
    Failed,
    Job,
    Tell,
    WorkerDied,
    not_importable,
    work,
    work_elsewhere,
)
from fluoroscope.errors import Misconfigured

_HEARTBEAT = 1.0
"""Seconds without news after which the old news are told again."""
_PATIENCE = 5.0
"""Seconds that a worker is given to end before it is killed."""


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Local:
    """So many cells at once, each on one thread: the same results whatever the number of workers.

    One worker is this process. More are fresh ones, started when there is work for them; they end with this one.
    """

    workers: int | None = None
    """None: as many as there are cores."""
    threads: int | None = 1
    """None, for one worker: all threads, for cells that are timed."""

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise Misconfigured(f"there must be at least 1 worker, not {self.workers}.")
        if self.threads is None and self.workers != 1:
            raise Misconfigured("cells that take all threads run on 1 worker.")

    def run(self, jobs: Sequence[Job], tell: Tell) -> Endings:
        """Each job's name with how it ended, as they end; `tell` hears how far the running ones are."""
        workers = self.workers or cores()
        if workers == 1 or self.threads is None:
            return _here(jobs, tell, self.threads)
        return _beside(jobs, tell, workers, self.threads)


def _here(jobs: Sequence[Job], tell: Tell, threads: int | None) -> Endings:
    for job in jobs:
        tell(job.name, 0.0)
        yield job.name, work(job, lambda fraction, name=job.name: tell(name, fraction), threads)  # type: ignore[misc]


def _beside(jobs: Sequence[Job], tell: Tell, workers: int, threads: int) -> Endings:
    waiting = deque((job, 1) for job in jobs)
    idle: list[_Worker] = []
    busy: dict[Connection, _Worker] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker = idle.pop() if idle else _Worker(threads)
                busy[worker.pipe] = worker
                worker.take(*waiting.popleft())
                tell(worker.job.name, 0.0)
            ready = wait(list(busy), timeout=_HEARTBEAT)
            if not ready:  # whoever waits for a time to pass hears that it passes
                oldest = next(iter(busy.values()))
                tell(oldest.job.name, oldest.fraction)
            for pipe in ready:
                assert isinstance(pipe, Connection)
                worker = busy[pipe]
                try:
                    message = pickle.loads(pipe.recv_bytes())
                except (EOFError, OSError):
                    del busy[pipe]
                    worker.end()
                    if worker.attempt < ATTEMPTS:
                        waiting.appendleft((worker.job, worker.attempt + 1))
                    else:
                        yield worker.job.name, Failed(WorkerDied(worker.obituary))
                    continue
                if isinstance(message, float):
                    worker.fraction = message
                    tell(worker.job.name, message)
                else:
                    idle.append(busy.pop(pipe))
                    yield worker.job.name, message
    finally:
        for worker in (*idle, *busy.values()):
            worker.end()


class _Worker:
    """A process that runs one job after another. A pipe of its own: a killed worker blocks nobody else's."""

    def __init__(self, threads: int) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self._process = SpawnProcess(target=_serve, args=(theirs, threads), name="fluoroscope cells")
        self._process.start()
        theirs.close()  # so that the pipe ends when the worker does
        self.job: Job
        self.attempt = 0
        self.fraction = 0.0

    def take(self, job: Job, attempt: int) -> None:
        self.job, self.attempt, self.fraction = job, attempt, 0.0
        content = pickle.dumps(job)
        with suppress(OSError):  # it is dead: that shows when its pipe is read
            self.pipe.send_bytes(content)

    def end(self) -> None:
        self._process.terminate()
        self._process.join(_PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self.pipe.close()

    @property
    def obituary(self) -> str:
        """How the worker ended, and what to do about it."""
        code = self._process.exitcode or 0
        if code == -signal.SIGKILL:
            return f"{ATTEMPTS} workers were killed while they ran it, perhaps for want of memory: try fewer workers."
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return (
            f"{ATTEMPTS} workers ended while they ran it, the last {how}; try 1 worker, and in a script of your own "
            'call run_cells under `if __name__ == "__main__":`.'
        )


def _serve(pipe: Connection, threads: int) -> None:
    """A worker's life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    threading.Thread(target=_die_with_parent, daemon=True).start()
    while True:
        try:
            content = pipe.recv_bytes()
        except EOFError:
            return
        try:
            job = pickle.loads(content)
        except Exception as problem:  # a cell whose class cannot be imported here
            pipe.send_bytes(pickle.dumps(Failed(not_importable(problem))))
            continue
        pipe.send_bytes(work_elsewhere(job, lambda fraction: pipe.send_bytes(pickle.dumps(float(fraction))), threads))


def _die_with_parent() -> None:
    """However it dies: a killed parent cannot end its workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

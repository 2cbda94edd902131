"""Runs cells on an engine: every one once, each kept as soon as it is finished."""

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fluoroscope.cells.cell import Cell, Result, by_settings
from fluoroscope.cells.local import Local
from fluoroscope.cells.on_ray import Ray
from fluoroscope.cells.store import CellStore, key
from fluoroscope.cells.work import Ended, Endings, Failed, Job, Tell, WorkerDied
from fluoroscope.errors import FluoroscopeError, Misconfigured, Unsupported

OnProgress = Callable[[float, int, str], None]
"""(cells done, with the parts of those that run, of how many, the one that has moved)."""
LOCAL = Local()
"""As many workers as there are cores, each with one thread."""
ONE_BY_ONE = Local(1, threads=None)
"""In this process with all of its threads, for cells that are timed."""


class Engine(Protocol):
    """What can run jobs. Only this process writes the store, so workers need not share its disk."""

    def run(self, jobs: Sequence[Job], tell: Tell) -> Endings:
        """Each job's name with how it ended, as they end; `tell` hears (name, fraction) of the running ones."""
        ...


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a cell ended."""

    result: Result
    """Empty where it failed."""
    seconds: float
    """What the cell took, whenever it was run."""
    failed: str | None = None
    """Why there is no result, in a sentence. It is not kept: the next run tries again."""
    left_out: bool = False
    """Not failed, but out of time."""


def engine_of(text: str) -> Engine:
    """The engine of this name: local, local:4 (workers), ray, ray:ADDRESS."""
    name, colon, rest = text.partition(":")
    if name == "local" and (not colon or rest.isdecimal()):
        return Local(int(rest) if colon else None)
    if name == "ray" and (not colon or rest):
        return Ray(rest or None)
    raise Misconfigured(f"an engine is local, local:WORKERS, ray or ray:ADDRESS, not {text!r}.")


def run_cells(
    cells: Sequence[Cell],
    seed: int,
    out: Path,
    engine: Engine = LOCAL,
    on_progress: OnProgress = lambda done, cells, what: None,
    keep_failures: bool = False,
    until: float | None = None,
    title: Callable[[Cell], str] = by_settings,
) -> list[Outcome]:
    """The outcomes, in the order of the cells; `out` keeps the finished ones, each under its title.

    A cell that is Unsupported or Misconfigured, or whose workers die, has failed and the others go on; anything else
    that it raises ends the run, as does Misconfigured where it is every cell's. With `keep_failures` nothing does.

    At `until`, of time.monotonic(), what still runs is stopped, and with what waits it is left out.
    """
    store, folder = CellStore(out / "cells"), out.absolute()
    names, by_name, unknown = _named(cells, seed)
    told = dict.fromkeys(names, 0.0)
    outcomes: dict[str, Outcome] = {}
    problems: dict[str, Exception] = {}

    def tell(name: str, fraction: float) -> None:
        told[name] = fraction
        on_progress(sum(told[each] for each in names), len(names), title(by_name[name]))

    def end(name: str, ended: Ended) -> None:
        if isinstance(ended, Failed):
            kept = isinstance(ended.problem, Unsupported | Misconfigured | WorkerDied) or keep_failures
            if not kept or isinstance(ended.problem, OSError):  # a disk that is full is so for every cell
                raise ended.problem
            problems[name] = ended.problem
            outcomes[name] = Outcome(Result({}), 0.0, _sentence(ended.problem))
        else:
            store.save(name, by_name[name].settings, ended.result, ended.seconds, title(by_name[name]))
            shutil.rmtree(out / "checkpoints" / name, ignore_errors=True)
            outcomes[name] = Outcome(ended.result, ended.seconds)
        tell(name, 1.0)

    for name in by_name:
        if name in unknown:
            end(name, unknown[name])
        elif found := store.load(name):
            outcomes[name] = Outcome(*found)
            told[name] = 1.0
    if outcomes:  # at once: whoever reckons the time left learns what took none
        tell(next(reversed(outcomes)), 1.0)
    jobs = [
        Job(name, cell, seed, folder, folder / "checkpoints" / name)
        for name, cell in by_name.items()
        if name not in outcomes
    ]

    def hear(name: str, fraction: float) -> None:
        if until is not None and time.monotonic() > until:
            raise _OutOfTime
        tell(name, fraction)

    with suppress(_OutOfTime), closing(engine.run(jobs, hear)) as endings:
        for name, ended in endings:
            end(name, ended)
    wrong = [problems[name] for name in by_name if isinstance(problems.get(name), Misconfigured)]
    if wrong and len(wrong) == len(by_name) and not keep_failures:
        raise wrong[0]  # no cell at all can be run like this
    late = "the time was over before it was done; the next run goes on with it."
    return [outcomes.get(name) or Outcome(Result({}), 0.0, late, left_out=True) for name in names]


class _OutOfTime(BaseException):
    """Not an Exception: a cell that runs in this process must not take it for its own failure."""


def _named(cells: Sequence[Cell], seed: int) -> tuple[list[str], dict[str, Cell], dict[str, Failed]]:
    """Each cell's name; the cells by name, equal ones once; and those whose attack cannot even be built."""
    names: list[str] = []
    unknown: dict[str, Failed] = {}
    for number, cell in enumerate(cells):
        try:
            names.append(key(cell, seed))
        except Exception as problem:
            names.append(f"cell {number}")
            unknown[names[-1]] = Failed(problem)
    return names, dict(zip(names, cells, strict=True)), unknown


def _sentence(problem: Exception) -> str:
    if isinstance(problem, FluoroscopeError):
        return str(problem)
    first = str(problem).strip().partition("\n")[0].rstrip(".")
    return f"{type(problem).__name__}: {first}." if first else f"{type(problem).__name__}."

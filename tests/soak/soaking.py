"""Kills a command again and again until it ends, and compares what it left with a run that nobody disturbed."""

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.soak.commands import Command, fresh, kept, whole_cells
from tests.soak.killing import Kill, operations, run_and_kill

_MOST_KILLS = 4
"""Of one run."""


@dataclass(frozen=True)
class Soaked:
    """A run that was killed some times, and what is wrong with it: nothing, if all is well."""

    command: str
    kills: tuple[Kill, ...]
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class Undisturbed:
    """How the command ends when nobody kills it."""

    base: Path
    result: dict
    said: str
    operations: int


def undisturbed(command: Command, folder: Path) -> Undisturbed:
    """Run it once, whole."""
    base, out = folder / "base", folder / "whole"
    base.mkdir(parents=True)
    command.prepare(base)
    fresh(command, base, out)
    ended = run_and_kill(lambda: command.run(out), out / command.writes, None, folder / "whole-run")
    if ended.code:
        raise SystemExit(f"{command.name} fails without a kill:\n{ended.err[-2000:]}")
    return Undisturbed(base, kept(out / command.writes), _numbers(ended.out), operations(ended))


def soak(command: Command, kills: int, seed: int, folder: Path) -> Iterator[Soaked]:
    """Runs with so many kills in all, at operations that are drawn."""
    whole, draw, number = undisturbed(command, folder), random.Random(f"{seed} {command.name}"), 0
    while kills > 0:
        number += 1
        here = fresh(command, whole.base, folder / f"run-{number}")
        found = _one(command, whole, min(kills, _MOST_KILLS), draw, here)
        kills -= max(1, len(found.kills))
        shutil.rmtree(here)
        yield found


def _one(command: Command, whole: Undisturbed, kills: int, draw: random.Random, here: Path) -> Soaked:
    done: list[Kill] = []
    wrong: list[str] = []
    out = here / command.writes
    cells: dict[str, int] = {}
    while True:
        # A later start does less, so it is killed earlier.
        at = draw.randrange(1, max(2, whole.operations // (len(done) + 1)))
        kill = Kill(at, draw.choice((0.0, 0.0, draw.uniform(0, 0.02)))) if len(done) < kills else None
        ended = run_and_kill(lambda: command.run(here), out, kill, here.with_suffix(".run"))
        now = whole_cells(out)
        wrong += [f"cell {name} was lost or run again" for name, when in cells.items() if now.get(name) != when]
        cells = now
        if ended.code != -9:
            break
        assert kill is not None
        done.append(kill)
    if ended.code:
        wrong.append(f"exit code {ended.code} after {len(done)} kills: {ended.err[-1500:]}")
    else:
        left = kept(out)
        for name in sorted(left.keys() | whole.result.keys()):
            if left.get(name) != whole.result.get(name):
                state = (
                    "missing" if name not in left else "not in the whole run" if name not in whole.result else "other"
                )
                wrong.append(f"{name} is {state}")
        if _numbers(ended.out) != whole.said:
            wrong.append("it printed other numbers")
        if command.verified:
            wrong += _verified(out, here)
    return Soaked(command.name, tuple(done), tuple(wrong))


def _verified(out: Path, here: Path) -> list[str]:
    checked = run_and_kill(lambda: _verify(out), out, None, here.with_suffix(".verify"))
    return [f"records --verify: {checked.err[-500:]}"] if checked.code else []


def _verify(out: Path) -> None:
    import sys

    from fluoroscope.cli import main

    sys.argv = ["fluoroscope", "records", str(out), "--verify"]
    main()


def _numbers(printed: str) -> str:
    """JSON on stdout, without what depends on a clock; of what is printed for people nothing."""
    import json

    from tests.soak.commands import timeless

    return json.dumps(timeless(json.loads(printed))) if printed.startswith("{") else ""

"""Mutated inputs over all readers, and what is asked of each: an exit code that means something, and a sentence."""

import random
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fluoroscope.cli import app, console
from fluoroscope.errors import FluoroscopeError
from tests.fuzz.forked import MEMORY, SECONDS, Ended, Limits, all_forked, forked
from tests.fuzz.mutate import mutated
from tests.fuzz.targets import TARGETS, Target

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
"""What could rewrite the terminal of whoever looks at an error."""
_LONGEST = 4000
TOGETHER = 20
"""Inputs per process: to fork one that has torch in it costs as much as most readers do."""


@dataclass(frozen=True)
class Tried:
    """One input, and what is wrong with the answer to it: nothing, if all is well."""

    target: Target
    number: int
    files: dict[str, bytes]
    ended: Ended
    wrong: str

    @property
    def inputs(self) -> int:
        return len(self.files)


def inputs(
    seed: int, number: int, materials: Path, targets: Sequence[Target] = TARGETS, together: int = TOGETHER
) -> tuple[Target, dict[str, bytes]]:
    """The input of this number: which reader, and its files that are others."""
    of_all = random.Random(f"{seed} {number // together}")  # all of a process are read by one reader
    target = of_all.choices(targets, [target.share / target.at_once for target in targets])[0]
    draw = random.Random(f"{seed} {number}")
    base = materials / target.folder
    known = sorted(path for pattern in target.files for path in base.rglob(pattern) if path.is_file())
    chosen = draw.sample(known, min(target.at_once, len(known)))
    return target, {str(p.relative_to(base)): mutated(p.name, p.read_bytes(), draw) for p in chosen}


def tried(
    target: Target,
    number: int,
    files: dict[str, bytes],
    materials: Path,
    scratch: Path,
    spoil: Callable[[Path], object] = lambda here: None,
) -> Tried:
    """Read it in a process of its own; `spoil` does to the folder what a file alone cannot say."""
    here = _laid_out(target, number, files, materials, scratch)
    spoil(here)
    return _judged(target, number, files, here, forked(lambda: _read(target, here), here))


def _laid_out(target: Target, number: int, files: dict[str, bytes], materials: Path, scratch: Path) -> Path:
    here = scratch / f"{number:06d}"
    shutil.copytree(materials / target.folder, here)
    for name, content in files.items():
        (here / name).write_bytes(content)
    return here


def _judged(target: Target, number: int, files: dict[str, bytes], here: Path, ended: Ended) -> Tried:
    went_to_work = target.works is not None and (here / target.works).exists()
    found = Tried(target, number, files, ended, wrong(ended, target, went_to_work))
    for path in (here, *here.parent.glob(f"{here.name}.*")):
        shutil.rmtree(path, ignore_errors=True)
        if path.is_file():
            path.unlink()
    return found


def _read(target: Target, here: Path) -> None:
    try:
        target.read(here)
    except FluoroscopeError as problem:  # of a reader that is no command
        print(f"error: {console.shown(app._brief(str(problem)))}", file=sys.stderr)
        raise SystemExit(problem.exit_code) from problem


def wrong(ended: Ended, target: Target, went_to_work: bool = False) -> str:
    """What is wrong with how it ended, in words; empty where nothing is."""
    said = ended.out + ended.err
    if "Traceback" in said:
        return "a traceback"
    if "error: unexpected " in said:
        return "an error that nobody foresaw"
    if ended.peak > MEMORY:
        return f"{ended.peak / 2**30:.1f} GB"
    if ended.late or ended.code in (-24, -9):
        return "" if went_to_work else f"more than {SECONDS} s"
    if ended.code < 0:
        return f"died by signal {-ended.code}"
    if ended.code not in {0, 2} | target.codes:
        return f"exit code {ended.code}"
    if _CONTROLS.search(said):
        return "control characters in what is printed"
    if ended.code == 2:
        lines = [line for line in ended.err.splitlines() if line.startswith(("error: ", "Error: ", "╭─ Error"))]
        if len(lines) != 1 and "no attack has a result" not in said and "[not tested]" not in said:
            return "no sentence, or several"
        if lines and len(lines[0]) > _LONGEST:
            return f"a sentence of {len(lines[0])} letters"
    return ""


def fuzz(
    seed: int,
    count: int,
    materials: Path,
    scratch: Path,
    start: int = 0,
    targets: Sequence[Target] = TARGETS,
    together: int = TOGETHER,
) -> Iterator[Tried]:
    """So many inputs, one after another; some share a process until one ends it."""
    done, number = 0, start
    while done < count:
        drawn = [(number + i, *inputs(seed, number + i, materials, targets, together)) for i in range(together)]
        number += together
        places = [_laid_out(target, n, files, materials, scratch) for n, target, files in drawn]
        reads = [partial(_read, target, here) for (_, target, _), here in zip(drawn, places, strict=True)]
        ends = all_forked(reads, places, Limits())
        for (n, target, files), here, ended in zip(drawn, places, ends, strict=True):
            done += len(files)
            yield _judged(target, n, files, here, ended)

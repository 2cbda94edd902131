"""Reads the findings of the studies that were run, and says of each claim what they come to."""

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from scipy.stats import t as student

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.studies.claims.claim import Claim, Selector, claims
from fluoroscope.studies.claims.rule import Measured, Rule, Verdict
from fluoroscope.studies.study import STUDIES

Status = Literal["agrees", "differs", "unclear", "not run", "not reproducible here"]
Row = Mapping[str, Any]
_OF: dict[str, Callable[[list[float]], float]] = {
    "mean": statistics.fmean,
    "sum": math.fsum,
    "min": lambda numbers: min(numbers),
    "max": lambda numbers: max(numbers),
}


class NoSuchRow(Exception):
    """The findings lack what the claim asks for: the study was run with other settings, or the cell failed."""


@dataclass(frozen=True)
class Judged:
    """A claim, and where it stands."""

    claim: Claim
    status: Status
    ours: str = ""
    """Our numbers with their intervals; of a claim about every value of a setting, for how many it holds."""
    on: str = ""
    """The images."""
    date: str = ""
    command: str = ""
    reason: str = ""


def judged(runs: Path, paper: str | None = None) -> list[Judged]:
    """Every claim, or those of one paper, by the findings under `runs`.

    Raises:
        BadInput: there is no such folder, or findings in it are damaged.
        Misconfigured: there is no such paper.
    """
    if not runs.is_dir():
        raise BadInput(f"there is no folder {str(runs)!r}; give the --out of `fluoroscope study run`.")
    asked = [claim for claim in claims() if paper in (None, claim.paper)]
    if not asked:
        raise Misconfigured(f"--paper must be P1, P2, P3 or P4, not {paper!r}.")
    found = {name: findings(runs, name) for name in {claim.study for claim in asked}}
    return [judge(claim, found[claim.study]) for claim in asked]


def findings(runs: Path, study: str) -> dict[str, Any] | None:
    """What a study wrote, in its own folder or as one file; None where it was not run."""
    for path in (runs / study / "findings.json", runs / f"{study}.json"):
        if path.is_file():
            try:
                read = json.loads(path.read_text(encoding="utf-8"))
                if read["study"] == study and isinstance(read["rows"], list):
                    return dict(read)
            except (OSError, ValueError, KeyError, TypeError) as problem:
                raise BadInput(f"{path} is damaged ({problem}): run the study again.") from problem
            raise BadInput(f"{path} holds the findings of {read['study']!r}: it was moved.")
    return None


def judge(claim: Claim, found: Mapping[str, Any] | None) -> Judged:
    """Where one claim stands by a study's findings."""
    if claim.not_here:
        return Judged(claim, "not reproducible here", reason=claim.not_here)
    if found is None:
        return Judged(claim, "not run", command=f"fluoroscope study run {claim.study}")
    command = command_of(found)
    rows = [row for row in found["rows"] if not row.get("failed")]
    on = ", ".join(dict.fromkeys(str(row["data"]).removeprefix("folder:") for row in rows if row.get("data")))
    date = str(found.get("date", ""))
    try:
        status, ours = _each(claim, rows) if claim.each else _once(claim, rows)
    except NoSuchRow as problem:
        return Judged(claim, "not run", on=on, date=date, command=command, reason=str(problem))
    return Judged(claim, status, ours, on, date, command, claim.why if status != "agrees" else "")


def command_of(found: Mapping[str, Any]) -> str:
    """What was called; images by their names, since a path is one machine's."""
    size = "" if found["size"] == "small" else f" --size {found['size']}"
    seed = f" --seed {found['seed']}" if found["seed"] else ""
    named = {str(row["data"]) for row in found["rows"] if row.get("data")}
    images = ""
    if not all(name.startswith("phantom/") for name in named):
        images = " --sets SETS" if len(named) > 1 else f" --data {min(named)}"
    return f"fluoroscope study run {found['study']}{size}{seed}{images}"


def _once(claim: Claim, rows: Sequence[Row]) -> tuple[Verdict, str]:
    values = {name: selected(selector, rows) for name, selector in claim.values.items()}
    return _worst(claim, values), "; ".join(shown(value) for value in values.values())


def _each(claim: Claim, rows: Sequence[Row]) -> tuple[Verdict, str]:
    """By the numbers alone: of six strategies, six intervals would never all be clear."""
    assert claim.each is not None
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.get(claim.each), []).append(row)
    if not groups:
        raise NoSuchRow("every row of the study failed.")
    held = 0
    for group in groups.values():
        values = {name: Measured(selected(each, group).value) for name, each in claim.values.items()}
        held += _worst(claim, values) == "agrees"
    enough = held >= (len(groups) if claim.at_least is None else claim.at_least)
    return "agrees" if enough else "differs", f"holds for {held} of {len(groups)}"


def _worst(claim: Claim, values: Mapping[str, Measured]) -> Verdict:
    verdicts = {Rule.parse(text).verdict(values) for text in claim.rules}
    order: tuple[Verdict, ...] = ("differs", "unclear", "agrees")
    return next(each for each in order if each in verdicts)


def selected(selector: Selector, rows: Sequence[Row]) -> Measured:
    """The number that the selector asks for.

    Raises:
        NoSuchRow: no row has these settings, or several where one is meant.
    """
    fit = [row for row in rows if all(_fits(row.get(name), value) for name, value in selector.rows.items())]
    fit = [row for row in fit if isinstance(row.get(selector.measure), int | float)]
    settings = ", ".join(f"{name} {value}" for name, value in selector.rows.items()) or "any settings"
    if not fit:
        raise NoSuchRow(f"no row with {settings} has {selector.measure}.")
    if selector.of != "only":
        numbers = [float(row[selector.measure]) for row in fit]
        return Measured(_OF[selector.of](numbers))
    if len(fit) > 1:
        raise NoSuchRow(f"{len(fit)} rows have {settings}: the study was changed.")
    return _with_interval(fit[0], selector.measure)


def _with_interval(row: Row, measure: str) -> Measured:
    """From `_low` and `_high`, or Student's from `_std` over the seeds."""
    value = float(row[measure])
    low, high = row.get(f"{measure}_low"), row.get(f"{measure}_high")
    if isinstance(low, int | float) and isinstance(high, int | float):
        return Measured(value, float(low), float(high))
    deviation, seeds = row.get(f"{measure}_std"), row.get("seeds")
    if isinstance(deviation, int | float) and isinstance(seeds, int) and seeds > 1:
        half = float(student.ppf(0.975, seeds - 1)) * deviation / math.sqrt(seeds)
        return Measured(value, value - half, value + half)
    return Measured(value)


def _fits(have: object, asked: object) -> bool:
    return have in asked if isinstance(asked, list) else have == asked


def shown(value: Measured) -> str:
    """The number as the page has it."""
    text = _short(value.value)
    return text if value.low is None or value.high is None else f"{text} ({_short(value.low)} to {_short(value.high)})"


def _short(number: float) -> str:
    return f"{number:.3g}"


def unknown_studies() -> list[str]:
    """Studies that a claim names and that there are not: for the tests."""
    return sorted({claim.study for claim in claims()} - set(STUDIES))

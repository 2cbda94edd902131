"""Grades A to E of an attacker under a setting, and the one place where they are defined: docs/report.md, Grades.

A leak is graded by what the attack got, and what is unclear by what it may have got: the worse end of the interval.
The grade is the worst cell's. What was not tested has none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from fluoroscope.findings import GUARD, Cell, Findings, Kind, KindLevel, Level, Score, Verdict
from fluoroscope.findings.metrics import metric_of
from fluoroscope.report.rules import Severity, rule_of

Grade = Literal["A", "B", "C", "D", "E", "?"]
GRADES: tuple[Grade, ...] = ("?", "A", "B", "C", "D", "E")
"""From the best to the worst; `?`: not tested, which is no grade."""

FEW, MANY = 0.2, 0.5
"""Of all that there was to get beyond guessing: up to here it is little, and up to there less than half."""
LEAKS: Mapping[Severity, tuple[Grade, Grade, Grade]] = {
    "critical": ("D", "D", "E"),
    "high": ("C", "D", "E"),
    "medium": ("C", "C", "D"),
}
"""Of a leak by how grave its kind is: little, less than half, more. One patient's image is never little."""

_SCORES: Mapping[Kind, tuple[str, float | None]] = {
    "reconstruction": ("told_apart", None),
    "crafted-model": ("rate", 0.0),
    "client-inference": ("auc", 0.5),
    "membership": ("auc", 0.5),
    "source": ("accuracy", None),
    "label-counts": ("gain", 0.0),
}
"""What says how much a kind of attack got, and what guessing reaches; None: the score itself says."""


@dataclass(frozen=True)
class Graded:
    """An attacker under one setting."""

    grade: Grade
    kind: KindLevel | None = None
    """What decides: the kind of attack with the worst grade, the graver one of equals; None: nothing is told."""
    cell: int | None = None
    """The position of the worst cell of this kind, which has a result."""
    gain: float | None = None
    """What the attack got there of all that there was to get beyond guessing: 0 is guessing, 1 everything."""


def grade_of(level: Level, severity: Severity, gain: float | None) -> Grade:
    """The grade of one kind of attack.

    Args:
        level: as the findings say it.
        severity: of the kind, where it leaks.
        gain: share of all that there was to get beyond guessing; None: not measured, which counts as much.

    Example:
        >>> grade_of("leaks", "critical", 0.05), grade_of("leaks", "medium", 0.9), grade_of("holds", "high", 0.0)
        ('D', 'D', 'A')
        >>> grade_of("unclear", "critical", 0.1), grade_of("unclear", "critical", None)
        ('B', 'C')
        >>> grade_of("not tested", "critical", None)
        '?'
    """
    if level == "not tested":
        return "?"
    if level == "holds":
        return "A"
    got = 1.0 if gain is None else gain
    if level == "unclear":
        return "B" if got <= FEW else "C"
    few, some, many = LEAKS.get(severity, LEAKS["critical"])
    return few if got <= FEW else some if got <= MANY else many


def graded(findings: Findings, verdict: Verdict, label: str) -> Graded:
    """The grade of an attacker under a setting, the clients' guard included where it is what stops the attacker."""
    kinds = next((each.kinds for each in verdict.levels if each.defence == label), ())
    return _worst(_of_kind(findings, verdict, label, kind) for kind in kinds)


def graded_today(findings: Findings, verdict: Verdict, label: str) -> Graded:
    """The same of the federation as it is: without the guard, which the findings count in wherever it helps."""
    return _worst(_kinds_today(findings, verdict, label))


def worst(grades: Iterable[Grade]) -> Grade:
    """The worst of several; `?` only where there is nothing else, and no A where something was not tested."""
    every = list(grades)
    found: Grade = max(every, key=GRADES.index, default="?")
    return "B" if found == "A" and "?" in every else found


def gains(findings: Findings, label: str) -> dict[Kind, float]:
    """What each kind of attack got under a setting, without the guard: 0 where no leak is shown."""
    found: dict[Kind, float] = {}
    for verdict in findings.verdicts:
        for of in _kinds_today(findings, verdict, label):
            if of.kind is not None and of.cell is not None and findings.cells[of.cell].defence == label:
                found[of.kind.kind] = (of.gain or 0.0) if of.kind.level == "leaks" else 0.0
    return found


def gained(cell: Cell, worse_end: bool = False) -> float | None:
    """What an attack got of all that there was to get beyond guessing, from 0 to 1; None where nothing says so."""
    name, chance = _SCORES.get(cell.kind, ("", None))
    score = cell.scores.get(name)
    if cell.status != "done" or score is None or score.value is None:
        return None
    end = score.end(metric_of(cell.kind, name, score).worse_end)
    value = end if worse_end and end is not None else score.value
    chance = score.chance if chance is None else chance
    most = _most(cell) if cell.kind == "label-counts" else 1.0
    if chance is None or most <= chance:
        return None
    gain = min(1.0, max(0.0, (value - chance) / (most - chance)))
    return gain if worse_end else min(gain, _found(cell))


def _found(cell: Cell) -> float:
    """Of all patients who were attacked, those found: one sure guess among many patients is not everything."""
    found, images = (cell.scores.get(name, Score(value=None)).value for name in ("found", "images"))
    return 1.0 if found is None or not images else found / images


def _most(cell: Cell) -> float:
    """Of the error of a guess without an update, all can be gained."""
    return cell.scores.get("error_public", Score(value=None)).value or 1.0


def _kinds_today(findings: Findings, verdict: Verdict, label: str) -> list[Graded]:
    kinds = next((each.kinds for each in verdict.levels if each.defence == label), ())
    if verdict.stopped_by == GUARD:
        kinds = tuple(kind.model_copy(update={"level": verdict.level}) for kind in kinds)
    return [_of_kind(findings, verdict, label, kind) for kind in kinds]


def _of_kind(findings: Findings, verdict: Verdict, label: str, kind: KindLevel) -> Graded:
    # A crafted model is sent under the first setting alone: the cell that decided is not of this one.
    mine = [
        (place, cell)
        for place, cell in enumerate(findings.cells)
        if cell.kind == kind.kind
        and cell.threat == verdict.threat
        and (cell.defence == label or cell.id == kind.cell)
        and cell.status == "done"
    ]
    unclear = kind.level == "unclear"
    rated = [(place, gained(cell, worse_end=unclear)) for place, cell in mine]
    known = [(place, gain) for place, gain in rated if gain is not None]
    place, gain = max(known, key=lambda each: each[1], default=(mine[0][0] if mine else None, None))
    return Graded(grade_of(kind.level, rule_of(kind.kind).severity, gain), kind, place, gain)


_GRAVITY: tuple[Severity, ...] = ("low", "medium", "high", "critical")


def _worst(kinds: Iterable[Graded]) -> Graded:
    every = list(kinds)
    if not every:
        return Graded("?")
    decides = max(every, key=lambda each: (GRADES.index(each.grade), _gravity(each), each.gain or 0.0))
    return Graded(worst(each.grade for each in every), decides.kind, decides.cell, decides.gain)


def _gravity(graded: Graded) -> int:
    return _GRAVITY.index(rule_of(graded.kind.kind).severity) if graded.kind else 0

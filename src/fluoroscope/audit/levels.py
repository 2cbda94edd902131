"""What counts as a leak and what as none: a row per kind of attack, and the levels that follow for every setting.

Leaks: above what chance gives. Holds: an attack that leaks without the defence gains nothing with it, and even the
worse end of its interval is small. Neither: unclear. Without any result: not tested. Not to find is no finding.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fluoroscope.findings import NO_DEFENCE, Cell, Kind, Level, Score, Size
from fluoroscope.findings.metrics import metric_of

SIGNIFICANT = 0.05
REHEARSED = {"reconstruction": "rehearsal_leak", "label-counts": "rehearsal_gain"}
"""By kind, what an attack reached on simulated clients, where a guess about the real one cannot be checked."""
CHOSEN = "chosen"
"""The setting `rehearsed` of the cell whose attack the attacker chose by rehearsal."""
Placed = tuple[int, Cell]
"""A cell with its position in the findings."""
Standing = Literal["above", "none", "between", "unknown"]
"""Of one cell: above chance; shown to be at chance and small; neither; without a result."""


@dataclass(frozen=True)
class Rule:
    """How cells of one kind are judged."""

    score: str
    """It ranks the cells, and is above chance in a leak."""
    null: float | None
    """What it is where nothing leaks; None: the chance that the score itself gives."""
    sizes: tuple[Size, ...]
    """What must be small where a setting holds."""


RULES: dict[Kind, Rule] = {
    "reconstruction": Rule("leak", 0.0, (
        Size(kind="reconstruction", metric="leak", most=0.02, of="value"),
        Size(kind="reconstruction", metric="line_up", most=2.0, of="times chance"),
    )),
    "client-inference": Rule("auc", 0.5, (Size(kind="client-inference", metric="auc", most=0.1, of="above chance"),)),
    "membership": Rule("auc", 0.5, (Size(kind="membership", metric="auc", most=0.1, of="above chance"),)),
    "source": Rule("accuracy", None, (Size(kind="source", metric="accuracy", most=0.1, of="above chance"),)),
    "label-counts": Rule("gain", 0.0, (Size(kind="label-counts", metric="gain", most=0.05, of="value"),)),
}  # fmt: skip
"""Attacks that a setting may stop; another kind is another row. The crafted model is the guard's, verdicts.py."""


def standing(cell: Cell, compared: int = 1) -> Standing:
    """Of one cell among so many from which the worst is taken: the more there are, the rarer chance must be."""
    rule = RULES[cell.kind]
    score = _score(cell, rule.score)
    if cell.status != "done" or score.value is None:
        return "unknown"
    null = score.chance if rule.null is None else rule.null
    metric = metric_of(cell.kind, rule.score, score)
    end, p_value = score.end(metric.better_end), _score(cell, "p_value").value
    beyond = None if end is None or null is None else metric.leak(end) > metric.leak(null)
    rare = None if p_value is None else p_value <= SIGNIFICANT / compared
    # One value has no interval: then the p-value decides alone, and where there is none nothing is shown.
    if beyond is not False and rare is not False and (beyond or rare):
        return "above"
    return "none" if all(_is_small(cell, size) for size in rule.sizes) else "between"


def _is_small(cell: Cell, size: Size) -> bool:
    score = _score(cell, size.metric)
    metric = metric_of(cell.kind, size.metric, score)
    end, chance = score.end(metric.worse_end), score.chance
    if end is None or (size.of != "value" and chance is None):
        return False
    bound = {"value": size.most, "times chance": size.most * (chance or 0), "above chance": size.most + (chance or 0)}
    return metric.leak(end) <= metric.leak(bound[size.of])


def leakage(cell: Cell) -> float:
    """Grows with the leak, in the direction that the metric declares; minus infinity where there is no value."""
    name = RULES[cell.kind].score
    score = _score(cell, name)
    return -math.inf if score.value is None else metric_of(cell.kind, name, score).leak(score.value)


Why = Literal[
    "above", "small", "large", "no undefended leak", "no comparison", "not repeated", "unchecked", "without a result"
]
"""What a level rests on."""


@dataclass(frozen=True)
class Judged:
    """The level of some cells, the one that decides, and what it rests on."""

    level: Level
    why: Why
    cell: Placed | None = None
    """None: there is not even a cell that was left out."""


@dataclass(frozen=True)
class Levels:
    """Asks the cells of an audit."""

    cells: Sequence[Cell]

    def of(self, threat: str, label: str) -> Judged:
        """The level of a threat under a setting: the worst of its kinds, clients and rounds; what was measured in part
        is unclear."""
        return _together(self.of_kind(threat, kind, label) for kind in self.kinds(threat))

    def kinds(self, threat: str) -> list[Kind]:
        """The kinds of attack of this threat that have a rule."""
        return list(dict.fromkeys(cell.kind for cell in self.cells if cell.threat == threat and cell.kind in RULES))

    def of_kind(self, threat: str, kind: Kind, label: str) -> Judged:
        """The same for one kind of attack."""
        groups: dict[tuple[str, ...], list[Placed]] = {}
        for placed in self._cells(threat, kind, label):
            groups.setdefault(_victim(placed[1]), []).append(placed)
        bare = self._cells(threat, kind, NO_DEFENCE) if groups else iter(())
        missed = [each for each in bare if _victim(each[1]) not in groups and self._standing(each[1]) == "above"]
        judged = [self._group(group, label) for group in groups.values()]
        return _together(judged + [Judged("not tested", "not repeated", each) for each in missed])

    def _cells(self, threat: str | None, kind: Kind, label: str) -> Iterator[Placed]:
        for place, cell in enumerate(self.cells):
            if (cell.threat, cell.kind, cell.defence) == (threat, kind, label):
                yield place, cell

    def _standing(self, cell: Cell) -> Standing:
        if cell.settings.get("rehearsed") == CHOSEN:  # what was chosen before looking is not the worst of many
            return standing(cell)
        return standing(cell, sum(1 for _ in self._cells(cell.threat, cell.kind, cell.defence)))

    def _leaking(self, like: Cell) -> set[str]:
        """The attacks on the same victim that leak without a defence."""
        bare = [cell for _, cell in self._cells(like.threat, like.kind, NO_DEFENCE) if _victim(cell) == _victim(like)]
        return {_attack(cell) for cell in bare if self._standing(cell) == "above"}

    def _group(self, group: Sequence[Placed], label: str) -> Judged:
        """Attacks on one client in one round stand together: the best of them counts."""
        stand = {place: self._standing(cell) for place, cell in group}
        known = [placed for placed in group if stand[placed[0]] != "unknown"]
        if not known:
            guessed = [placed for placed in group if is_guess(placed[1])]
            if guessed:  # nobody here can say whether it is right, so it shows neither a leak nor that there is none
                return Judged("unclear", "unchecked", guessed[0])
            return Judged("not tested", "without a result", group[0])
        above = [placed for placed in known if stand[placed[0]] == "above"]
        if above:
            return Judged("leaks", "above", _best(above))
        best = _best(known)
        if label == NO_DEFENCE:
            return Judged("unclear", "no undefended leak", best)
        if not any(True for _ in self._cells(best[1].threat, best[1].kind, NO_DEFENCE)):
            return Judged("unclear", "no comparison", best)
        leaking = self._leaking(group[0][1])
        if not leaking:
            return Judged("unclear", "no undefended leak", best)
        again = [placed for placed in group if _attack(placed[1]) in leaking]
        if lost := [placed for placed in again if stand[placed[0]] == "unknown"]:
            return Judged("unclear", "not repeated", lost[0])
        if not again:
            return Judged("unclear", "not repeated", best)
        if wide := [placed for placed in [best, *again] if stand[placed[0]] != "none"]:
            return Judged("unclear", "large", wide[0])
        return Judged("holds", "small", best)


def _together(parts: Iterable[Judged]) -> Judged:
    judged = list(parts)
    by_level = {level: [each for each in judged if each.level == level] for level in ("leaks", "unclear", "not tested")}
    if not judged:
        return Judged("not tested", "without a result")
    if by_level["leaks"]:
        return max(by_level["leaks"], key=lambda each: leakage(each.cell[1]) if each.cell else -math.inf)
    if len(by_level["not tested"]) == len(judged):
        return by_level["not tested"][0]
    if by_level["unclear"]:
        return by_level["unclear"][0]
    if by_level["not tested"]:  # the rest holds, and this was not looked at
        return replace(by_level["not tested"][0], level="unclear")
    return max(judged, key=lambda each: leakage(each.cell[1]) if each.cell else -math.inf)


def _best(cells: Sequence[Placed]) -> Placed:
    """The attack that the attacker chose by rehearsal; where none was rehearsed, the one that got most."""
    chosen = [placed for placed in cells if placed[1].settings.get("rehearsed") == CHOSEN]
    return max(chosen or cells, key=lambda placed: leakage(placed[1]))


def is_guess(cell: Cell) -> bool:
    """Whether an attack made a guess, beside what it reaches on simulated clients."""
    return cell.status == "done" and _score(cell, REHEARSED.get(cell.kind, "")).value is not None


def _victim(cell: Cell) -> tuple[str, ...]:
    return tuple(str(cell.settings.get(key)) for key in ("client", "round"))


def _attack(cell: Cell) -> str:
    return str(cell.settings.get("attack"))


def _score(cell: Cell, name: str) -> Score:
    return cell.scores.get(name) or Score(value=None)

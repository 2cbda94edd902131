"""Limits that an audit must keep, and the levels of its threats. What was not measured keeps none.

A failed attack proves nothing, and neither does one that could not be told from chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from fluoroscope.errors import Misconfigured
from fluoroscope.findings import NO_DEFENCE, Audit, Cell, End, Findings, Kind, Level
from fluoroscope.findings.metrics import declared
from fluoroscope.findings.pointer import pointer


@dataclass(frozen=True)
class Limit:
    """The most that a score may be, or the least: most of what leaks, least of what is of use."""

    metric: str
    bound: float
    at_least: bool = False

    def __str__(self) -> str:
        return f"{self.metric} {'>=' if self.at_least else '<='} {self.bound:g}"

    @property
    def measured_by(self) -> tuple[Kind, ...]:
        """The kinds of cells in which this side of the score is the bad one: `--max-auc` is of attacks, as the
        federation's AUC is a virtue, and `--min-accuracy` is of the federation."""
        return tuple(
            kind
            for each in declared(self.metric)
            if (each.higher_is_leakier is True) != self.at_least
            for kind in each.kinds
        )

    @property
    def worse_end(self) -> End:
        """The end of an interval that is worse for the limit."""
        return "low" if self.at_least else "high"


@dataclass(frozen=True)
class Judgement:
    """One limit held against one finding."""

    limit: Limit
    cell: str | None
    pointer: str | None
    value: float | None = None
    """The end of the interval that is worse for the limit, or the value where there is no interval."""
    end: str | None = None
    """Which of them it is: high, low or value."""
    missing: str | None = None
    """Why there is none."""

    @property
    def passed(self) -> bool:
        if self.value is None:
            return False
        return self.value >= self.limit.bound if self.limit.at_least else self.value <= self.limit.bound


@dataclass(frozen=True)
class LevelJudgement:
    """One threat under the setting that is judged. Nothing but `holds` passes, unless it is allowed by name."""

    threat: str
    level: Level
    allowed: bool
    pointer: str
    missing: str | None = None
    """Why there is no level."""

    @property
    def passed(self) -> bool:
        return self.allowed or self.level == "holds"


@dataclass(frozen=True)
class Judged:
    """An audit at the gate."""

    defence: str
    limits: tuple[Judgement, ...]
    levels: tuple[LevelJudgement, ...]

    @property
    def passed(self) -> bool:
        return all(each.passed for each in self.limits) and all(each.passed for each in self.levels)


def judge(audit: Audit, limits: Sequence[Limit], defence: str | None = None, allow: Sequence[str] = ()) -> Judged:
    """Hold an audit against limits, and against the levels of its threats.

    Args:
        audit: as `read_findings` gives it.
        limits: each is held against every finding of the setting that measures it.
        defence: the setting; default: the recommended one, else none; of updates that were recorded behind a defence,
            theirs.
        allow: levels that may pass beside `holds`, such as "unclear", or of one threat: "curious-client=unclear".
    """
    for limit in limits:
        if not limit.measured_by:
            side = "less" if limit.at_least else "more"
            raise Misconfigured(
                f"{limit} is not a limit: no cell measures a {limit.metric!r} of which {side} is worse."
            )
    findings = audit.findings
    label = defence or findings.recommendation.defence or _attacked(findings)
    known = [each.label for each in findings.defences]
    if label not in known:
        near = get_close_matches(label, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}."
        raise Misconfigured(f"this audit has no defence {label!r}; {hint}")
    allowed = [_allowed(each, [verdict.threat for verdict in findings.verdicts]) for each in allow]
    return Judged(
        label,
        tuple(judgement for limit in limits for judgement in _judged(findings, limit, label)),
        tuple(_level(findings, place, label, allowed) for place in range(len(findings.verdicts))),
    )


def _attacked(findings: Findings) -> str:
    """None; where nothing was attacked without a defence, the setting under which something was."""
    labels = list(dict.fromkeys(cell.defence for cell in findings.cells))
    return NO_DEFENCE if NO_DEFENCE in labels or len(labels) != 1 else labels[0]


def _allowed(text: str, threats: Sequence[str]) -> tuple[str | None, str]:
    """(threat or None for all, level) of `unclear`, `not-tested` or `curious-client=unclear`."""
    threat, _, level = text.rpartition("=")
    level = level.replace("-", " ")
    levels = ("unclear", "not tested", "leaks")
    if level not in levels or (threat and threat not in threats):
        raise Misconfigured(
            f"--allow {text} names no level: it takes {', '.join(each.replace(' ', '-') for each in levels)}, "
            f"or one of them for one threat, such as {(threats or ['curious-client'])[-1]}=unclear."
        )
    return threat or None, level


def _level(findings: Findings, place: int, label: str, allowed: Sequence[tuple[str | None, str]]) -> LevelJudgement:
    verdict = findings.verdicts[place]
    level: Level = "not tested"
    where, missing = pointer("verdicts", place, "level"), None
    at = next((i for i, each in enumerate(verdict.levels) if each.defence == label), None)
    if at is None:  # of format 1: its levels meant something else
        missing = "this audit is of a version that compared no score with its null; run it again"
    else:
        where, level = pointer("verdicts", place, "levels", at, "level"), verdict.levels[at].level
    may = any(threat in (None, verdict.threat) and name == level for threat, name in allowed)
    return LevelJudgement(verdict.threat, level, may, where, missing)


def _judged(findings: Findings, limit: Limit, label: str) -> list[Judgement]:
    kinds = limit.measured_by
    cells = [(i, cell) for i, cell in enumerate(findings.cells) if cell.defence == label and cell.kind in kinds]
    if (
        limit.metric == "rate"
    ):  # a crafted model comes before any defence but the guard, which counts where it was tried
        crafted = [(i, cell) for i, cell in enumerate(findings.cells) if cell.kind in kinds]
        cells = [(i, cell) for i, cell in crafted if cell.kind == "guard" and "rate" in cell.scores] or crafted
    found = [_held(limit, i, cell) for i, cell in cells if cell.status != "done" or limit.metric in cell.scores]
    return found or [Judgement(limit, None, None, missing=f"no finding of this audit has it under {label}")]


def _held(limit: Limit, place: int, cell: Cell) -> Judgement:
    if cell.status != "done":
        ended = "was left out" if cell.status == "left out" else cell.status
        why = f"{cell.id} {ended}: {(cell.reason or 'no reason given').rstrip('.')}"
        return Judgement(limit, cell.id, pointer("cells", place, "status"), missing=why)
    at, score = pointer("cells", place, "scores", limit.metric), cell.scores[limit.metric]
    end: str = limit.worse_end
    value = score.end(limit.worse_end)
    if value is None:
        end, value = "value", score.value
    missing = f"{cell.id} has no value" if value is None else None
    if end == "value" and score.n == 1:
        value, missing = None, f"{cell.id} is one value, which has no interval: it may be anything"
    return Judgement(limit, cell.id, f"{at}/{end}", value, end, missing)

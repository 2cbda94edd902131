"""Limits that an audit must keep, and the levels of its threats. What was not measured keeps none.

A failed attack proves nothing, and neither does one that could not be told from chance.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from fluoroscope.errors import Misconfigured
from fluoroscope.findings import NO_DEFENCE, Audit, Cell, End, Findings, Kind, Level
from fluoroscope.findings.metrics import declared
from fluoroscope.findings.pointer import pointer
from fluoroscope.report.accepted import NOTHING_ACCEPTED, Review
from fluoroscope.report.risks import CLAIM, Risk, risks


@dataclass(frozen=True)
class Limit:
    """The most that a score may be, or the least: most of what leaks, least of what is of use."""

    metric: str
    bound: float
    at_least: bool = False
    kind: Kind | None = None
    """Of the cells that it is held against; None: all that measure it."""

    def __str__(self) -> str:
        whose = f"{self.kind} " if self.kind else ""
        return f"{whose}{self.metric} {'>=' if self.at_least else '<='} {self.bound:g}"

    @property
    def measured_by(self) -> tuple[Kind, ...]:
        """The kinds of cells in which this side of the score is the bad one: `--max-auc` is of attacks, as the
        federation's AUC is a virtue, and `--min-accuracy` is of the federation."""
        return tuple(
            kind
            for each in declared(self.metric)
            if (each.higher_is_leakier is True) != self.at_least
            for kind in each.kinds
            if self.kind in (None, kind)
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
    may_lack: bool = False
    """Whether the policy was written when this cell had none either."""

    @property
    def passed(self) -> bool:
        if self.value is None:
            return self.may_lack
        return self.value >= self.limit.bound if self.limit.at_least else self.value <= self.limit.bound


@dataclass(frozen=True)
class LevelJudgement:
    """One threat, or the setting's own claim, under the setting that is judged. Nothing but `holds` passes, unless it
    is allowed by name or all that does not hold is accepted by id."""

    threat: str
    level: Level
    allowed: bool
    pointer: str
    missing: str | None = None
    """Why there is no level."""
    open: tuple[str, ...] = ()
    """The ids of its findings that neither hold nor are accepted."""
    accepted: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.allowed or self.level == "holds" or (bool(self.accepted) and not self.open)


@dataclass(frozen=True)
class Judged:
    """An audit at the gate."""

    defence: str
    limits: tuple[Judgement, ...]
    levels: tuple[LevelJudgement, ...]

    @property
    def passed(self) -> bool:
        return all(each.passed for each in self.limits) and all(each.passed for each in self.levels)


def judge(
    audit: Audit,
    limits: Sequence[Limit],
    defence: str | None = None,
    allow: Sequence[str] = (),
    review: Review = NOTHING_ACCEPTED,
    may_lack: Collection[str] = (),
) -> Judged:
    """Hold an audit against limits, and against the levels of its threats.

    Args:
        audit: as `read_findings` gives it.
        limits: each is held against every finding of the setting that measures it.
        defence: the setting; default: the recommended one, else none; of updates that were recorded behind a defence,
            theirs.
        allow: levels that may pass beside `holds`, such as "unclear", or of one threat: "curious-client=unclear".
        review: findings that are accepted by id.
        may_lack: ids of cells that need no result, as they had none when the limits were written.
    """
    for limit in limits:
        if not limit.measured_by:
            side = "less" if limit.at_least else "more"
            raise Misconfigured(
                f"{limit} is not a limit: no cell measures a {limit.metric!r} of which {side} is worse."
            )
    findings = audit.findings
    label = setting_of(findings, defence)
    allowed = [_allowed(each, [*(verdict.threat for verdict in findings.verdicts), CLAIM]) for each in allow]
    here = [risk for risk in risks(audit) if risk.defence == label]
    levels = [_level(findings, place, label) for place in range(len(findings.verdicts))]
    levels += [LevelJudgement(CLAIM, risk.level, False, risk.pointer) for risk in here if risk.threat == CLAIM]
    return Judged(
        label,
        tuple(judgement for limit in limits for judgement in judgements(findings, limit, label, may_lack)),
        tuple(_reviewed(each, here, review, allowed) for each in levels),
    )


def setting_of(findings: Findings, defence: str | None = None) -> str:
    """The label of the setting that is judged: the one that is asked for, else the recommended one, else none."""
    label = defence or findings.recommendation.defence or _attacked(findings)
    known = [each.label for each in findings.defences]
    if label not in known:
        near = get_close_matches(label, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}."
        raise Misconfigured(f"this audit has no defence {label!r}; {hint}")
    return label


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
            f"or one of them for one threat, such as {threats[0]}=unclear."
        )
    return threat or None, level


def _level(findings: Findings, place: int, label: str) -> LevelJudgement:
    verdict = findings.verdicts[place]
    at = next((i for i, each in enumerate(verdict.levels) if each.defence == label), None)
    if at is None:  # of format 1: its levels meant something else
        missing = "this audit is of a version that compared no score with its null; run it again"
        return LevelJudgement(verdict.threat, "not tested", False, pointer("verdicts", place, "level"), missing)
    where = pointer("verdicts", place, "levels", at, "level")
    return LevelJudgement(verdict.threat, verdict.levels[at].level, False, where)


def _reviewed(
    judged: LevelJudgement, here: Sequence[Risk], review: Review, allowed: Sequence[tuple[str | None, str]]
) -> LevelJudgement:
    """The same with what is allowed by name or accepted by id."""
    may = any(threat in (None, judged.threat) and name == judged.level for threat, name in allowed)
    ids = [risk.id for risk in here if risk.threat == judged.threat and risk.level != "holds"]
    accepted = tuple(name for name in ids if name in review.accepted)
    open_ = tuple(name for name in ids if name not in review.accepted)
    return replace(judged, allowed=may, open=open_, accepted=accepted)


def judgements(findings: Findings, limit: Limit, label: str, may_lack: Collection[str] = ()) -> list[Judgement]:
    """One limit held against every finding of a setting that measures it."""
    kinds = limit.measured_by
    cells = [(i, cell) for i, cell in enumerate(findings.cells) if cell.defence == label and cell.kind in kinds]
    if (
        limit.metric == "rate"
    ):  # a crafted model comes before any defence but the guard, which counts where it was tried
        crafted = [(i, cell) for i, cell in enumerate(findings.cells) if cell.kind in ("crafted-model", "guard")]
        cells = [(i, cell) for i, cell in crafted if cell.kind == "guard" and "rate" in cell.scores] or crafted
    found = [_held(limit, i, cell) for i, cell in cells if cell.status != "done" or limit.metric in cell.scores]
    found = [replace(each, may_lack=True) if each.missing and each.cell in may_lack else each for each in found]
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

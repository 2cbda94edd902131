"""Limits that an audit must keep. What was not measured keeps none: a failed attack proves nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from fluoroscope.errors import Misconfigured
from fluoroscope.findings import NO_DEFENCE, Audit, Cell, Findings, Kind
from fluoroscope.findings.pointer import pointer

MEASURED_BY: dict[str, tuple[Kind, ...]] = {
    "rdlv": ("reconstruction",),
    "iip": ("reconstruction",),
    "auc": ("client-inference", "membership", "source"),  # not that of the federation, which is a virtue
    "rate": ("crafted-model", "guard"),
    "accuracy": ("federation",),  # not that of an attack
}


@dataclass(frozen=True)
class Limit:
    """The most that a score may be, or the least."""

    metric: str
    bound: float
    at_least: bool = False

    def __str__(self) -> str:
        return f"{self.metric} {'>=' if self.at_least else '<='} {self.bound:g}"


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


def judge(audit: Audit, limits: Sequence[Limit], defence: str | None = None) -> tuple[str, list[Judgement]]:
    """The defence that was judged (the recommended one unless told), and each limit against each of its findings."""
    if not limits:
        raise Misconfigured("a gate without a limit lets everything through; give one, such as --max-rdlv 0.")
    label = defence or audit.findings.recommendation.defence or NO_DEFENCE
    known = [each.label for each in audit.findings.defences]
    if label not in known:
        near = get_close_matches(label, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}."
        raise Misconfigured(f"this audit has no defence {label!r}; {hint}")
    return label, [judgement for limit in limits for judgement in _judged(audit.findings, limit, label)]


def _judged(findings: Findings, limit: Limit, label: str) -> list[Judgement]:
    kinds = MEASURED_BY[limit.metric]
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
        why = f"{cell.id} {'failed' if cell.status == 'failed' else 'was left out'}: {cell.reason or 'no reason given'}"
        return Judgement(limit, cell.id, pointer("cells", place, "status"), missing=why)
    at, score = pointer("cells", place, "scores", limit.metric), cell.scores[limit.metric]
    end, value = ("low", score.low) if limit.at_least else ("high", score.high)
    if value is None:
        end, value = "value", score.value
    missing = f"{cell.id} has no value" if value is None else None
    if end == "value" and score.n == 1:
        value, missing = None, f"{cell.id} is one value, which has no interval: it may be anything"
    return Judgement(limit, cell.id, f"{at}/{end}", value, end, missing)

"""Two audits side by side: which scores changed, and whether by more than chance would."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from fluoroscope.findings import Audit, Cell, Score
from fluoroscope.findings.metrics import metric_of
from fluoroscope.findings.pointer import pointer

_NAMED_BY = ("client", "attack", "round")
"""Settings that say which cell it is; the others say how it was run."""

Key = tuple[str, ...]


class Side(NamedTuple):
    """A score in one of the audits, and where it stands in its findings."""

    score: Score
    pointer: str


class Change(NamedTuple):
    """One score in both audits."""

    cell: dict[str, Any]
    metric: str
    before: Side
    after: Side

    @property
    def difference(self) -> float | None:
        before, after = self.before.score.value, self.after.score.value
        return None if before is None or after is None else after - before

    @property
    def leaks_more(self) -> bool | None:
        """Whether the later audit leaks more by this score; None where it says nothing of leaks, or did not change."""
        metric = metric_of(self.cell["kind"], self.metric, self.after.score)
        if metric.higher_is_leakier is None or not self.difference:
            return None
        return metric.leak(self.difference) > 0

    @property
    def overlap(self) -> bool | None:
        """Whether the intervals have a point in common; None where one of the two has no interval."""
        a, b = self.before.score, self.after.score
        if a.low is None or a.high is None or b.low is None or b.high is None:
            return None
        return a.low <= b.high and b.low <= a.high


@dataclass(frozen=True)
class Comparison:
    """What differs between two audits."""

    changes: list[Change]
    only_before: list[dict[str, Any]]
    only_after: list[dict[str, Any]]
    statuses: list[dict[str, Any]]
    """Cells that both tried, of which one came to nothing: with `before` and `after`."""


def compare(before: Audit, after: Audit) -> Comparison:
    """Cells are matched by kind, threat, defence, client, attack and round; then by their order."""
    old, new = _by_key(before), _by_key(after)
    changes, statuses = [], []
    for key in (key for key in old if key in new):
        (i, was), (j, now) = old[key], new[key]
        if was.status != now.status:
            statuses.append({**described(was), "before": was.status, "after": now.status})
        for name in (name for name in was.scores if name in now.scores):
            sides = (_side(i, was, name), _side(j, now, name))
            changes.append(Change(described(was), name, *sides))
    return Comparison(
        changes,
        [described(cell) for key, (_, cell) in old.items() if key not in new],
        [described(cell) for key, (_, cell) in new.items() if key not in old],
        statuses,
    )


def in_both(before: Audit, after: Audit) -> list[tuple[Cell, Cell]]:
    """The cells that both audits have, matched as `compare` matches them."""
    old, new = _by_key(before), _by_key(after)
    return [(cell, new[key][1]) for key, (_, cell) in old.items() if key in new]


def _side(place: int, cell: Cell, name: str) -> Side:
    return Side(cell.scores[name], pointer("cells", place, "scores", name))


def _by_key(audit: Audit) -> dict[Key, tuple[int, Cell]]:
    return {key: (i, cell) for i, (key, cell) in enumerate(_keys(audit))}


def _keys(audit: Audit) -> Iterator[tuple[Key, Cell]]:
    seen: Counter[Key] = Counter()
    for cell in audit.findings.cells:
        key = tuple(f"{name}={value}" for name, value in described(cell).items())
        seen[key] += 1
        yield (*key, str(seen[key])), cell


def described(cell: Cell) -> dict[str, Any]:
    """By what a cell is matched, and shown."""
    named = {name: cell.settings[name] for name in _NAMED_BY if name in cell.settings}
    return {"kind": cell.kind, "threat": cell.threat, "defence": cell.defence, **named}

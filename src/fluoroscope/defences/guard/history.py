"""What the guard remembers of the models it was sent: numbers, no images, no weights.

A server that has time poisons a model a little every round. No round is far from the one before; the trend is.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fluoroscope import strict_json
from fluoroscope.defences.guard.verdict import Reason
from fluoroscope.errors import BadInput

MOST_ROUNDS = 200
WATCHED = ("isolation", "tokens", "owned", "owned of few")
"""Shares, of which more is worse."""
JUMP, TREND = 0.25, 0.25
"""Of a share: against the round before, and against the first rounds."""
RISES = 0.7
"""Share of the rounds in which a number that creeps up goes up."""
FIRST, FEWEST = 3, 6
"""Rounds that show how a federation starts, and rounds that make a trend."""
SILENCED = 1e-3
FISHED = 5.0


@dataclass(frozen=True)
class History:
    """Rounds so far, the oldest first.

    Example:
        >>> told = History().after({"isolation": 0.1, "passed": 1.0})
        >>> [reason.check for reason in told.reasons({"isolation": 0.6, "passed": 1.0})]
        ['jump']
        >>> History.from_json(told.to_json()) == told
        True
    """

    rounds: tuple[Mapping[str, float], ...] = field(default=())

    def after(self, measured: Mapping[str, float]) -> "History":
        """The same with one more round; what was not measured adds nothing."""
        return History((*self.rounds, dict(measured))[-MOST_ROUNDS:]) if measured else self

    def reasons(self, measured: Mapping[str, float]) -> list[Reason]:
        """Refuses a jump against the last round, and a steady rise since the first."""
        if not self.rounds or not measured:
            return []
        return self._jumps(measured) or self._trends(measured)

    def _jumps(self, now: Mapping[str, float]) -> list[Reason]:
        last, found = self.rounds[-1], []
        for name in WATCHED:
            if name in last and _comparable(last, now) and now.get(name, 0.0) - last[name] > JUMP:
                what = f"the share '{name}' jumped from {last[name]:.0%} to {now[name]:.0%} in one round"
                found.append(_reason("jump", what, {name: now[name], f"{name} before": last[name]}))
        if now.get("passed", 1.0) < SILENCED * last.get("passed", 0.0):
            found.append(_reason("jump", "next to no gradient passes it any more", {"passed": now["passed"]}))
        if now.get("class ratio", 1.0) > max(FISHED * last.get("class ratio", 1.0), 10.0):
            found.append(_reason("jump", "one class suddenly gets the gradient", {"class ratio": now["class ratio"]}))
        return found

    def _trends(self, now: Mapping[str, float]) -> list[Reason]:
        found = []
        for name in WATCHED:
            # Rounds of an earlier version of the guard may lack a number.
            values = [each[name] for each in (*self.rounds, now) if _comparable(each, now) and name in each]
            if len(values) < FEWEST:
                continue
            start = sorted(values[:FIRST])[FIRST // 2]
            steps = [b - a for a, b in pairwise(values) if a != b]
            rising = sum(step > 0 for step in steps) / max(len(steps), 1)
            if values[-1] - start > TREND and rising >= RISES:
                what = f"the share '{name}' has crept from {start:.0%} to {values[-1]:.0%} over {len(values)} rounds"
                found.append(_reason("trend", what, {name: values[-1], f"{name} at first": start}))
        return found

    def to_json(self) -> str:
        """For a file beside the site's ledger."""
        return json.dumps({"rounds": [dict(each) for each in self.rounds]})

    @staticmethod
    def from_json(text: str | bytes) -> "History":
        """Read what `to_json` wrote.

        Raises:
            BadInput: it is something else.
        """
        try:
            given: Any = strict_json.loads(text)
            rounds = tuple({str(k): float(v) for k, v in each.items()} for each in given["rounds"])
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise BadInput("the guard's history is damaged: delete it, and the guard starts a new one.") from problem
        if not all(math.isfinite(value) for each in rounds for value in each.values()):
            raise BadInput("the guard's history holds values that are no numbers: delete it to start a new one.")
        return History(rounds[-MOST_ROUNDS:])


def _comparable(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Shares of a small batch are larger: only batches of one size are compared."""
    return one.get("images") == other.get("images")


def _reason(check: str, what: str, numbers: Mapping[str, float]) -> Reason:
    return Reason(
        check,
        "",
        "refuse",
        f"Against earlier rounds {what}: training does not do that, somebody who poisons a model step by step does.",
        numbers,
    )

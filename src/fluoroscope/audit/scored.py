"""Numbers and curves as findings hold them: finite or none, with the direction that their metric declares."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fluoroscope.findings import Curve, Kind, Score
from fluoroscope.findings.metrics import declared, metric
from fluoroscope.scores.intervals import Interval
from fluoroscope.scores.roc import Roc


@dataclass(frozen=True)
class Measured:
    """A value with how many cases it rests on, and what chance gives. An interval knows its own number of cases."""

    value: float | Interval | None
    n: int | None = None
    chance: float | None = None


def scores_of(kind: Kind, **values: float | Interval | Measured | None) -> dict[str, Score]:
    """Each value as the score of the metric of this name.

    Raises:
        LookupError: where cells of this kind declare no such metric.

    Example:
        >>> scores_of("crafted-model", recovered=Measured(9, n=10))["recovered"].higher_is_leakier
        True
    """
    return {name: _score(kind, name, value) for name, value in values.items()}


def curve(x: Sequence[float], y: Sequence[float | None], x_label: str, y_label: str) -> Curve:
    """Points to draw."""
    return Curve(x=tuple(x), y=tuple(map(finite, y)), x_label=x_label, y_label=y_label)


def roc_curve(found: Roc) -> Curve:
    """The true-positive rate of every false-positive rate."""
    rates = (found.false_positive_rate.tolist(), found.true_positive_rate.tolist())
    return curve(*rates, "false-positive rate", "true-positive rate")


def finite(value: float | None) -> float | None:
    """The value; None where it is not a finite number, which JSON cannot hold."""
    return None if value is None or not math.isfinite(value) else float(value)


def _score(kind: Kind, name: str, value: float | Interval | Measured | None) -> Score:
    if not declared(name, kind):
        raise LookupError(f"no metric {name!r} of {kind} cells is declared; add it to findings/metrics.py")
    found = value if isinstance(value, Measured) else Measured(value)
    at = found.value
    value, low, high = (at.mean, at.low, at.high) if isinstance(at, Interval) else (at, None, None)
    return Score(
        value=finite(value),
        low=finite(low),
        high=finite(high),
        n=at.n if isinstance(at, Interval) else found.n,
        chance=found.chance,
        higher_is_leakier=metric(name, kind).higher_is_leakier,
    )

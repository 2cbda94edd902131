"""Numbers and curves as findings hold them."""

import math
from collections.abc import Sequence
from typing import Any

from fluoroscope.scores.intervals import Interval


def score(
    value: float | Interval | None, leakier: bool | None = None, n: int | None = None, chance: float | None = None
) -> dict[str, Any]:
    """A value with its interval, how many cases it rests on, and what chance gives; `leakier`: if higher is worse."""
    if isinstance(value, Interval):
        low, high, n, value = value.low, value.high, value.n, value.mean
    else:
        low = high = math.nan
    return {
        "value": _finite(value),
        "low": _finite(low),
        "high": _finite(high),
        "n": n,
        "chance": chance,
        "higher_is_leakier": leakier,
    }


def curve(x: Sequence[float], y: Sequence[float | None], x_label: str, y_label: str) -> dict[str, Any]:
    """Points to draw."""
    return {"x": list(x), "y": [_finite(value) for value in y], "x_label": x_label, "y_label": y_label}


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)

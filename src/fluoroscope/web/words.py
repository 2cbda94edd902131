"""Times in words, coarse on purpose: a page that changes every second cannot be read."""

import math
from datetime import datetime


def duration(seconds: float | None) -> str:
    """How long, to the nearest that matters.

    >>> [duration(each) for each in (3, 47, 100, 3000, 9000, 400000)]
    ['5 s', '50 s', '2 min', '50 min', '2.5 h', '5 days']
    """
    if seconds is None or not math.isfinite(seconds):
        return "not known yet"
    if seconds < 60:
        return f"{max(5, math.ceil(seconds / 5) * 5)} s"
    if seconds < 90 * 60:
        return f"{math.ceil(seconds / 60)} min"
    if seconds < 48 * 3600:
        return f"{round(seconds / 1800) / 2:g} h"
    return f"{math.ceil(seconds / 86400)} days"


def moment(seconds: float | None) -> str:
    """When, by this machine's clock; a dash where it is not known."""
    try:
        return "–" if seconds is None else datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError, ValueError):  # a file may claim any number
        return "–"

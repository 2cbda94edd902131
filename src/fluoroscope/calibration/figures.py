"""How a search and a front are drawn."""

import math
from collections.abc import Iterable, Sequence

from matplotlib.figure import Figure

from fluoroscope.calibration.points import Calibrated, Point
from fluoroscope.report.figures import Panel, panels
from fluoroscope.report.figures import Point as Drawn

LEAK = "leak beyond the null (95 % interval)"


def drawn(found: Sequence[Calibrated], accuracy: float | None, title: str) -> Figure:
    """For each defence leakage by strength; last, leakage against accuracy, of the settings that were trained."""
    price = {each.candidate.name: _drawn((point, _number(point.accuracy)) for point in each.trained) for each in found}
    levels = {"chance": 0.0}
    without = "" if accuracy is None else f" (without a defence {accuracy:.3f})"
    return panels(
        title,
        [
            *[
                Panel("search", each.setting, LEAK, _searched(each), levels, log_x=True)
                for each in found
                if each.setting is not None
            ],
            Panel("price", f"test accuracy{without}", LEAK, price, levels, joined=False),
        ],
    )


def _searched(each: Calibrated) -> dict[str, list[Drawn]]:
    assert each.setting is not None
    name = each.candidate.searched or ""
    asked = [(point, float(dict(point.parts)[name][each.setting])) for point in each.tried]
    return {each.candidate.name: _drawn(asked)}


def _drawn(points: Iterable[tuple[Point, float]]) -> list[Drawn]:
    """Those that somebody attacked, by x."""
    found = [
        Drawn(x, worst.leak.mean, worst.leak.low, worst.leak.high)
        for point, x in points
        if (worst := point.found.worst) is not None
    ]
    return sorted(found, key=_x)


def _x(point: Drawn) -> float:
    return point.x


def _number(value: float | None) -> float:
    return math.nan if value is None else value

"""How a search and a front are drawn."""

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from fluoroscope.calibration.calibrate import Calibrated, Point
from fluoroscope.report.figures import Panel, panels
from fluoroscope.report.figures import Point as Drawn

LEAK = "RDLV (95 % interval)"


def drawn(found: Sequence[Calibrated], accuracy: float | None, title: str) -> Figure:
    """For each defence leakage by strength; last, leakage against accuracy, of the settings that were trained."""
    price = {
        each.defence: sorted((_at(point, _number(point.accuracy)) for point in each.trained), key=_x) for each in found
    }
    levels = {"no better than the prior": 0.0}
    without = "" if accuracy is None else f" (without a defence {accuracy:.3f})"
    return panels(
        title,
        [
            *[Panel("search", each.setting, LEAK, _searched(each), levels, log_x=True) for each in found],
            Panel("price", f"test accuracy{without}", LEAK, price, levels, joined=False),
        ],
    )


def _searched(each: Calibrated) -> dict[str, list[Drawn]]:
    points = (_at(point, float(point.settings[each.setting])) for point in each.tried)
    return {each.defence: sorted(points, key=_x)}


def _at(point: Point, x: float) -> Drawn:
    return Drawn(x, point.leak.rdlv.mean, point.leak.rdlv.low, point.leak.rdlv.high)


def _x(point: Drawn) -> float:
    return point.x


def _number(value: float | None) -> float:
    return math.nan if value is None else value

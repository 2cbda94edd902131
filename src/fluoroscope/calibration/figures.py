"""How a search and a front are drawn."""

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from fluoroscope.calibration.calibrate import Calibrated, Point
from fluoroscope.report.figures import Panel, panels
from fluoroscope.report.figures import Point as Drawn


def drawn(found: Sequence[Calibrated], accuracy: float | None, title: str) -> Figure:
    """Left: leakage by strength. Right: leakage against accuracy, of the settings that were trained."""
    leaks = {
        each.defence: sorted((_at(point, float(point.settings[each.setting])) for point in each.tried), key=_x)
        for each in found
    }
    price = {
        each.defence: sorted((_at(point, _number(point.accuracy)) for point in each.trained), key=_x) for each in found
    }
    levels = {"no better than the prior": 0.0}
    without = "" if accuracy is None else f" (without a defence {accuracy:.3f})"
    return panels(
        title,
        [
            Panel("search", "strength of the defence", "RDLV (95 % interval)", leaks, levels, log_x=True),
            Panel("price", f"test accuracy{without}", "RDLV (95 % interval)", price, levels),
        ],
    )


def _at(point: Point, x: float) -> Drawn:
    return Drawn(x, point.leak.rdlv.mean, point.leak.rdlv.low, point.leak.rdlv.high)


def _x(point: Drawn) -> float:
    return point.x


def _number(value: float | None) -> float:
    return math.nan if value is None else value

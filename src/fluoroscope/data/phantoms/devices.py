"""What is in and on many patients besides anatomy: a pacemaker, ECG leads, tubes. They say nothing about the lungs."""

from collections.abc import Sequence

import numpy as np

from fluoroscope.data.phantoms.canvas import Canvas
from fluoroscope.data.phantoms.draws import Draws, Floats
from fluoroscope.data.phantoms.paths import bezier, points_for
from fluoroscope.data.phantoms.thorax import Frame


def devices(canvas: Canvas, draws: Draws, m: Frame) -> Floats:
    """Density that metal and plastic add."""
    return (
        _pacemaker(canvas, draws.child("pacemaker"), m)
        + _ecg(canvas, draws.child("ecg"))
        + _tube(canvas, draws.child("tube"), m)
    )


def _wires(canvas: Canvas, knots: Sequence[tuple[Floats, Floats]], sigma: float, weight: Floats) -> Floats:
    x, y = bezier(knots, points_for(canvas.size, 2.2, sigma))
    return canvas.strokes(x, y, np.full_like(x, sigma), np.broadcast_to(weight[:, :, None], x.shape))


def _pacemaker(canvas: Canvas, draws: Draws, m: Frame) -> Floats:
    present, x, y = draws.chance(0.06), draws.uniform(0.48, 0.62), m.clavicle + draws.uniform(0.10, 0.2)
    corner = ((canvas.x - x) / 0.10) ** 2, ((canvas.y - y) / 0.08) ** 2
    box = 0.5 * present * canvas.inside(0.1 * (1 - corner[0] ** 2 - corner[1] ** 2), 0.02)
    start, collar, heart = x[:, :, 0], m.clavicle[:, :, 0], m.heart_y[:, :, 0]
    tip = draws.uniform(0.12, 0.3, 1)
    knots = [(start, y[:, :, 0]), (start - 0.3, collar - 0.05), (start - 0.83, collar), (tip, heart + 0.12)]
    return box + _wires(canvas, knots, 0.009, 0.22 * present[:, :, 0])


def _ecg(canvas: Canvas, draws: Draws) -> Floats:
    """Three leads that start at an electrode and leave the film."""
    weight = draws.chance(0.2)[:, :, 0] * draws.uniform(0.08, 0.18, 1)
    x = np.array([[-0.6, 0.6, 0.5]], dtype=np.float32) + draws.normal(0, 0.06, 3)
    y = np.array([[-0.5, -0.5, 0.25]], dtype=np.float32) + draws.normal(0, 0.08, 3)
    end_x, end_y = draws.uniform(0.3, 1.3, 3) * draws.uniform(-1, 1, 1), draws.uniform(0.9, 1.3, 3)
    knots = [(x, y), (x + draws.normal(0, 0.3, 3), y + draws.uniform(0, 0.4, 3)), (end_x, y + 0.5), (end_x, end_y)]
    electrodes = canvas.dots(x, y, np.full_like(x, 0.025), np.broadcast_to(2 * weight, x.shape))
    return electrodes + _wires(canvas, knots, 0.006, weight)


def _tube(canvas: Canvas, draws: Draws, m: Frame) -> Floats:
    """Into the windpipe, the gullet or the great vein: down the middle, to some depth."""
    weight = draws.chance(0.14)[:, :, 0] * draws.uniform(0.10, 0.18, 1)
    bottom = m.apex[:, :, 0] + draws.uniform(0.35, 1.3, 1)
    start, lean = draws.uniform(-0.1, 0.1, 1), draws.normal(0, 0.03, 1)
    knots = [(start, -1.2 + 0 * start), (lean, -0.7 + 0 * start), (lean, -0.5 + 0 * start), (lean - 0.02, bottom)]
    return _wires(canvas, knots, 0.012, weight)

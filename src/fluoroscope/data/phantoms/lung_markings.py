"""What shows inside a healthy lung: the hila, the vessels that fan out from them, and a net of finer ones."""

import numpy as np

from fluoroscope.data.phantoms.canvas import Canvas
from fluoroscope.data.phantoms.draws import Draws, Floats
from fluoroscope.data.phantoms.paths import Curves, points_for
from fluoroscope.data.phantoms.thorax import Frame

_A_SIDE = 9


def lung_markings(canvas: Canvas, draws: Draws, m: Frame) -> Floats:
    """Density, wherever it falls; the caller keeps what is inside the lungs."""
    n = 2 * _A_SIDE
    hilum = (m.apex + 0.62)[:, :, 0]
    side = np.repeat(np.array([-1, 1], dtype=np.float32), _A_SIDE)[None, :]
    fan = np.tile(np.linspace(-1.25, 1.35, _A_SIDE, dtype=np.float32), 2)[None, :] + draws.normal(0, 0.15, n)
    trunks = Curves(
        x=side * (0.12 + draws.uniform(0.0, 0.08, n)),
        y=hilum + 0.09 * fan + draws.normal(0, 0.03, n),
        heading=np.where(side > 0, fan, np.float32(np.pi) - fan),
        length=draws.uniform(0.35, 0.62, n),
        bend=draws.normal(0, 0.18, n),
    )
    thick = draws.uniform(0.008, 0.016, n)[:, :, None]
    x, y, heading = trunks.forks(draws.uniform(0.2, 0.7, 2 * n))
    aside = np.sign(draws.uniform(-1, 1, 2 * n)) * draws.uniform(0.4, 0.9, 2 * n)
    twigs = Curves(x, y, heading + aside, draws.uniform(0.15, 0.3, 2 * n), draws.normal(0, 0.2, 2 * n))
    hila = canvas.dots(
        np.array([[-0.19, -0.2, 0.2, 0.21]], dtype=np.float32) + draws.normal(0, 0.02, 4),
        hilum + np.array([[-0.03, 0.1, -0.07, 0.05]], dtype=np.float32),
        draws.uniform(0.04, 0.07, 4),
        draws.uniform(0.06, 0.14, 4),
    )
    net = 0.012 * canvas.waves(draws, 0.05, 0.15, 40) + 0.012 * canvas.waves(draws, 0.15, 0.5, 16)
    vessels = _tapered(canvas, trunks, thick, 0.10, 0.6) + _tapered(canvas, twigs, np.float32(0.006), 0.07, 0.3)
    markings: Floats = draws.uniform(0.6, 1.3) * (vessels + hila + net)
    return markings


def _tapered(canvas: Canvas, curves: Curves, sigma: Floats | np.float32, weight: float, longest: float) -> Floats:
    points = points_for(canvas.size, longest, 0.005)
    taper = np.linspace(1.0, 0.45, points, dtype=np.float32)
    x, y = curves.trace(points)
    return canvas.strokes(x, y, np.broadcast_to(sigma * taper, x.shape), np.broadcast_to(weight * taper, x.shape))

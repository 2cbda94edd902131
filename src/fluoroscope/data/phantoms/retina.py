"""A healthy retina: pigment, optic disc, macula and the tree of vessels."""

from dataclasses import dataclass

import numpy as np

from fluoroscope.data.phantoms.canvas import Canvas
from fluoroscope.data.phantoms.draws import Draws, Floats
from fluoroscope.data.phantoms.paths import Curves, points_for


def background(canvas: Canvas, draws: Draws, macula: Floats) -> Floats:
    """(rows, 3, size, size): all but the vessels."""
    x, y = canvas.x, canvas.y
    pigment = draws.child("pigment")
    red = pigment.uniform(0.58, 0.88)
    green = red * pigment.uniform(0.40, 0.62)
    blue = green * pigment.uniform(0.28, 0.70)
    mottle = canvas.waves(pigment, 0.05, 0.25, 64) * pigment.uniform(0.008, 0.035)
    mottle = mottle + canvas.waves(pigment, 0.3, 1.2, 16) * 0.04
    # Nerve fibres shine around the disc; the macula is darker, the fovea darkest.
    shine = pigment.uniform(0.08, 0.3) * np.exp(-(x**2 + y**2) / 0.16)
    from_fovea = (x - macula) ** 2 + (y - draws.child("macula height").normal(0.05, 0.02)) ** 2
    dark = pigment.uniform(0.18, 0.42) * np.exp(-from_fovea / 0.035) + pigment.uniform(0.05, 0.2) * np.exp(
        -from_fovea / 0.004
    )
    light = (1 + mottle + shine) * (1 - dark)
    colour = np.stack([red * light, green * light * (1 + 0.5 * mottle), blue * light], axis=1)
    return _disc(canvas, draws.child("disc"), colour, red)


def _disc(canvas: Canvas, draws: Draws, colour: Floats, red: Floats) -> Floats:
    """Yellow, with a paler cup and a darker rim of pigment at one side."""
    size = draws.uniform(0.105, 0.14)
    tall = draws.uniform(1.0, 1.18)
    r = np.hypot(canvas.x * tall, canvas.y) / size
    disc = canvas.inside((1 - r) * size, 0.012)[:, None]
    cup = canvas.inside((draws.uniform(0.3, 0.65) - r) * size, 0.02)[:, None]
    crescent = np.exp(-(((r - 1.15) / 0.15) ** 2)) * np.clip(canvas.x / size * draws.uniform(-1, 1), 0, 1)
    colour = colour * (1 - draws.uniform(0, 0.4) * crescent)[:, None]
    rim = np.array([1.15, 0.80, 0.36], dtype=np.float32)[:, None, None]
    pale = np.array([1.25, 1.05, 0.60], dtype=np.float32)[:, None, None]
    bright = draws.uniform(0.9, 1.2)[:, None] * (0.45 + 0.55 * red[:, None])
    disc = disc * draws.uniform(0.75, 0.97)[:, None]
    colour = colour * (1 - disc) + disc * bright * rim
    painted: Floats = colour * (1 - cup * disc) + cup * disc * bright * pale
    return painted


_HEADINGS = np.array([[-1.35, -1.15, 1.35, 1.15, -2.25, -2.55, 2.25, 2.55]], dtype=np.float32)
"""An artery and a vein to each quarter: up and down past the macula, and towards the nose."""
_BENDS = np.array([[0.62, 0.52, -0.62, -0.52, -0.15, -0.1, 0.15, 0.1]], dtype=np.float32)
_LENGTHS = np.array([[1.1] * 4 + [0.8] * 4], dtype=np.float32)
_VEINS = np.array([[0, 1, 1, 0, 1, 0, 0, 1]], dtype=np.float32)


@dataclass(frozen=True)
class _Vessels:
    """Vessels of one order; width and blood are (rows, vessels)."""

    curves: Curves
    sigma: Floats
    blood: Floats


def vessels(canvas: Canvas, draws: Draws, side: Floats, macula: Floats) -> Floats:
    """How much blood each pixel looks through, 0 to 1; side is (rows, 1)."""
    n = _HEADINGS.size
    trunks = _Vessels(
        Curves(
            x=draws.normal(0, 0.018, n),
            y=draws.normal(0, 0.018, n),
            heading=_HEADINGS + draws.normal(0, 0.14, n),
            length=_LENGTHS * draws.uniform(1.15, 1.6, n),
            bend=_BENDS * draws.uniform(0.6, 1.3, n),
        ),
        sigma=(0.0085 + 0.0035 * _VEINS) * draws.uniform(0.85, 1.2, n),
        blood=(0.55 + 0.3 * _VEINS) * draws.uniform(0.8, 1.1, n),
    )
    branches = _fork(draws, trunks, 5, 0.28, 0.60)
    twigs = _fork(draws, branches, 2, 0.12, 0.30)
    amount = (
        _stroke(canvas, trunks, side, macula, 1.6, 0.007)
        + _stroke(canvas, branches, side, macula, 0.6, 0.004)
        + _stroke(canvas, twigs, side, macula, 0.3, 0.0025)
    )
    seen: Floats = 1 - np.exp(-amount)
    return seen


def _fork(draws: Draws, parents: _Vessels, each: int, shortest: float, longest: float) -> _Vessels:
    """`each` branches on every vessel, spread along it and to both sides."""
    n = parents.sigma.shape[1] * each
    order = np.tile(np.arange(each, dtype=np.float32), n // each)[None, :]
    at = 0.12 + 0.78 * (order + draws.uniform(count=n)) / each
    x, y, heading = parents.curves.forks(at)
    sign = 1 - 2 * ((order + draws.chance(0.25, n)) % 2)
    return _Vessels(
        Curves(
            x,
            y,
            heading=heading + sign * draws.uniform(0.4, 1.0, n),
            length=draws.uniform(shortest, longest, n) * (1.1 - 0.5 * at),
            bend=-sign * draws.uniform(-0.1, 0.5, n),
        ),
        sigma=parents.sigma.repeat(each, axis=1) * 0.69 * (1.1 - 0.4 * at),
        blood=parents.blood.repeat(each, axis=1) * draws.uniform(0.6, 0.95, n),
    )


def _stroke(canvas: Canvas, tree: _Vessels, side: Floats, macula: Floats, longest: float, thin: float) -> Floats:
    points = points_for(canvas.size, longest, thin)
    x, y = tree.curves.trace(points)
    x = x * side[:, :, None]
    taper = np.linspace(1.0, 0.55, points, dtype=np.float32)
    # No vessel crosses the fovea, and those that leave the disc together do not black it out.
    spare = 1 - np.exp(-((x - macula) ** 2 + (y - 0.05) ** 2) / 0.025) - 0.5 * np.exp(-(x**2 + y**2) / 0.002)
    return canvas.strokes(x, y, tree.sigma[:, :, None] * taper, tree.blood[:, :, None] * (0.5 + 0.5 * taper) * spare)

"""Signs of diabetic retinopathy, more and worse with the grade (after the scale of Wilkinson et al. 2003)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluoroscope.data.phantoms.canvas import Canvas
from fluoroscope.data.phantoms.draws import Draws, Floats
from fluoroscope.data.phantoms.paths import Curves, points_for


@dataclass(frozen=True)
class _Spots:
    """Scattered spots: how many at each grade, how wide, how strong."""

    fewest: tuple[int, ...]
    most: tuple[int, ...]
    sigma: tuple[float, float]
    weight: float

    def draw(self, canvas: Canvas, draws: Draws, side: Floats, labels: NDArray[np.int64]) -> Floats:
        room = max(self.most)
        low, high = _per_grade(labels, self.fewest), _per_grade(labels, self.most)
        count = np.floor(low + (high - low + 1) * draws.uniform(count=1))
        x, y = side * draws.uniform(-0.45, 1.1, room), draws.uniform(-0.78, 0.78, room)
        weight = (np.arange(room) < count) * draws.uniform(0.6 * self.weight, self.weight, room)
        return canvas.dots(x, y, draws.uniform(*self.sigma, room), weight)


_MICROANEURYSMS = _Spots((0, 6, 8, 14, 8), (0, 14, 22, 32, 24), (0.012, 0.017), 1.3)
_HAEMORRHAGES = _Spots((0, 0, 2, 12, 3), (0, 0, 7, 28, 18), (0.016, 0.042), 0.9)
_COTTON_WOOL = _Spots((0, 0, 0, 2, 0), (0, 0, 1, 7, 4), (0.025, 0.05), 0.55)


@dataclass(frozen=True)
class Lesions:
    """How much each pixel is covered, 0 to 1."""

    blood: Floats
    exudate: Floats
    wool: Floats


def _per_grade(labels: NDArray[np.int64], values: tuple[float, ...]) -> Floats:
    return np.array(values, dtype=np.float32)[labels][:, None]


def lesions(canvas: Canvas, draws: Draws, side: Floats, labels: NDArray[np.int64]) -> Lesions:
    """Side is (rows, 1), labels (rows,)."""
    blood = (
        _MICROANEURYSMS.draw(canvas, draws.child("microaneurysms"), side, labels)
        + _HAEMORRHAGES.draw(canvas, draws.child("haemorrhages"), side, labels)
        + _new_vessels(canvas, draws.child("new vessels"), side, labels)
    )
    wool = _COTTON_WOOL.draw(canvas, draws.child("cotton wool"), side, labels)
    exudate = _exudates(canvas, draws.child("exudates"), side, labels)
    pool = _pooled_blood(canvas, draws.child("pool"), side, labels)
    return Lesions(1 - (1 - pool) * np.exp(-blood), 1 - np.exp(-exudate), 1 - np.exp(-wool))


def _exudates(canvas: Canvas, draws: Draws, side: Floats, labels: NDArray[np.int64]) -> Floats:
    """Hard yellow grains in clusters, often around the macula."""
    clusters, grains = 4, 14
    total = clusters * grains
    present = draws.uniform(count=clusters) < _per_grade(labels, (0, 0, 0.45, 0.55, 0.35))
    x = (side * draws.uniform(0.1, 1.0, clusters)).repeat(grains, axis=1) + draws.normal(0, 0.06, total)
    y = draws.uniform(-0.5, 0.5, clusters).repeat(grains, axis=1) + draws.normal(0, 0.06, total)
    weight = present.repeat(grains, axis=1) * draws.uniform(0.4, 1.2, total)
    return canvas.dots(x, y, draws.uniform(0.008, 0.018, total), weight)


def _new_vessels(canvas: Canvas, draws: Draws, side: Floats, labels: NDArray[np.int64]) -> Floats:
    """Proliferation: tangles of fine, winding vessels, on the disc or beside the arcades."""
    tangles, twigs = 2, 26
    n = tangles * twigs
    elsewhere = draws.chance(0.5, 1)
    first_x, second_x = elsewhere * draws.uniform(0.1, 0.8, 1), draws.uniform(-0.3, 0.9, 1)
    first_y, second_y = elsewhere * draws.uniform(-0.6, 0.6, 1), 0.55 * np.sign(draws.uniform(-1, 1, 1))
    curves = Curves(
        x=side * np.concatenate([first_x, second_x], axis=1).repeat(twigs, axis=1) + draws.normal(0, 0.05, n),
        y=np.concatenate([first_y, second_y], axis=1).repeat(twigs, axis=1) + draws.normal(0, 0.05, n),
        heading=draws.uniform(0, 2 * np.pi, n),
        length=draws.uniform(0.06, 0.16, n),
        bend=draws.uniform(-1.3, 1.3, n),
    )
    x, y = curves.trace(points_for(canvas.size, 0.35, 0.004))
    here = np.concatenate([np.ones_like(elsewhere), draws.chance(0.6, 1)], axis=1).repeat(twigs, axis=1)
    weight = here * (labels == 4)[:, None] * draws.uniform(0.45, 0.9, 1)
    return canvas.strokes(x, y, np.full_like(x, 0.004), np.broadcast_to(weight[:, :, None], x.shape))


def _pooled_blood(canvas: Canvas, draws: Draws, side: Floats, labels: NDArray[np.int64]) -> Floats:
    """Blood in front of the retina sinks: a boat with a level top."""
    present = draws.chance(0.5) * (labels == 4)[:, None, None]
    x = (canvas.x - side[:, :, None] * draws.uniform(0.0, 0.9)) / draws.uniform(0.12, 0.32)
    y = canvas.y - draws.uniform(-0.2, 0.5) + 0.012 * canvas.waves(draws, 0.1, 0.5, 12)
    hull = canvas.inside((1 - np.hypot(x, y / draws.uniform(0.12, 0.3))) * 0.2, 0.03)
    pool: Floats = present * draws.uniform(0.5, 0.9) * hull * canvas.inside(y, 0.02)
    return pool

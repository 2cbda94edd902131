"""Axial T1 slices of the head at the height of the ventricles, by how far the brain has shrunk. The face looks up."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluoroscope.data.phantoms.canvas import Canvas, Pose
from fluoroscope.data.phantoms.draws import Draws, Floats

CLASSES = ("mild demented", "moderate demented", "non-demented", "very mild demented")
"""P3's classes in P3's order."""
_SEVERITY = np.array([2, 3, 0, 1], dtype=np.float32)

_CSF, _GREY, _WHITE = 0.13, 0.47, 0.74


@dataclass(frozen=True)
class Signs:
    """How far each part has shrunk or widened: 0 in the young, about 1 in moderate dementia; (rows, 1, 1)."""

    sulci: Floats
    ventricles: Floats
    hippocampus: Floats


def draw(size: int, patient: Draws, image: Draws, labels: NDArray[np.int64]) -> Floats:
    """Slices (rows, 1, size, size) in [0, 1]."""
    habit, shot = patient.child("pose"), image.child("pose")
    pose = Pose(
        angle=habit.normal(0, 0.05) + shot.normal(0, 0.025),
        scale=habit.normal(0.98, 0.03) + shot.normal(0, 0.008),
        right=shot.normal(0, 0.02),
        down=shot.normal(0, 0.02),
    )
    canvas = Canvas(size, pose)
    ageing = patient.child("ageing")
    # Classes overlap a little, as diagnoses do; and no two signs of ageing go quite in step.
    atrophy = np.clip(0.32 * _SEVERITY[labels][:, None, None] + ageing.normal(0.08, 0.08), 0, 1.3)
    sulci, ventricles, hippocampus = (np.clip(atrophy + ageing.normal(0, 0.06), 0, 1.4) for _ in range(3))
    slice_ = _head(canvas, patient, Signs(sulci, ventricles, hippocampus))
    return _scan(canvas, slice_, image.child("scan"))[:, None]


def _head(canvas: Canvas, draws: Draws, signs: Signs) -> Floats:
    shape, bone = draws.child("shape"), draws.child("bone")
    wide, tall = shape.normal(0.79, 0.03), shape.normal(0.93, 0.02)
    x, y = canvas.x, canvas.y
    broad = wide * (1 + shape.uniform(0.04, 0.14) * y - shape.uniform(0.02, 0.10) * y**2)
    uneven = 1 + 0.010 * canvas.waves(shape, 0.8, 2.0, 8)
    out = np.sqrt((x / broad) ** 2 + (y / tall) ** 2) * uneven
    skull = shape.uniform(0.85, 0.88)
    brain = _brain(canvas, draws, out / skull, signs)
    # From inside out: inner table, marrow, outer table, muscle and fat, air.
    thick = canvas.waves(bone, 0.4, 1.5, 16)
    inner, outer = skull + 0.012, skull + bone.uniform(0.065, 0.08) + 0.008 * thick
    marrow = bone.uniform(0.1, 0.45) * np.exp(-(((out - 0.5 * (inner + outer)) / 0.014) ** 2))
    fat = bone.uniform(0.55, 0.9) * (1 + 0.12 * thick + 0.08 * canvas.waves(bone, 0.1, 0.3, 24))
    head = brain + canvas.inside(out - inner, 0.010) * (0.06 + marrow - brain)
    head = head + canvas.inside(out - outer, 0.012) * (fat - head)
    in_air: Floats = head * canvas.inside(1 - out, 0.012)
    return in_air


def _brain(canvas: Canvas, draws: Draws, out: Floats, signs: Signs) -> Floats:
    """Tissue by its distance from fluid: fluid, then a ribbon of grey matter, then white; out is 1 at the skull."""
    folds = draws.child("folds")
    # A gentle warp of all that follows: nothing in a head is straight.
    x = canvas.x + 0.014 * canvas.waves(folds, 0.3, 1.0, 16)
    y = canvas.y + 0.014 * canvas.waves(folds, 0.3, 1.0, 16)
    ax = np.abs(x)
    from_fluid = np.minimum(_from_folds(canvas, folds, out), _from_clefts(folds, x, y))
    width = 0.005 + 0.023 * signs.sulci
    ribbon = folds.uniform(0.042, 0.05) - 0.008 * signs.sulci
    white = canvas.inside(from_fluid - width - ribbon, 0.018)
    tissue = _GREY + (_WHITE - _GREY) * white
    tissue = tissue + _nuclei(canvas, draws.child("nuclei"), ax, y, signs) * (_GREY + 0.07 - tissue)
    tissue = tissue * (1 + 0.02 * canvas.waves(folds, 0.03, 0.12, 48))
    fluid = canvas.inside(width - from_fluid, 0.010)
    fluid = np.maximum(fluid, _ventricles(canvas, draws.child("ventricles"), ax, y, signs))
    return tissue + fluid * (_CSF - tissue)


def _from_folds(canvas: Canvas, draws: Draws, out: Floats) -> Floats:
    """Distance to the surface or the nearest sulcus: spokes of a wheel, bent until they look grown."""
    depth = (1 - out) * 0.70
    number = np.rint(draws.uniform(19, 26))
    bends = 1.5 * canvas.waves(draws, 0.3, 0.9, 24) + 0.7 * canvas.waves(draws, 0.13, 0.3, 32)
    turn = (number * np.arctan2(canvas.y, canvas.x) + bends) * np.float32(0.5 / np.pi)
    aside = np.abs(turn - np.rint(turn)) * out * (2 * np.pi * 0.70 / number)
    reach = 0.16 + 0.06 * canvas.waves(draws, 0.2, 0.6, 24)
    distance: Floats = np.minimum(depth, np.hypot(aside, np.maximum(depth - reach, 0)))
    return distance


def _from_clefts(draws: Draws, x: Floats, y: Floats) -> Floats:
    """Distance to the gap between the hemispheres, as far as the corpus callosum, and to the Sylvian fissures."""
    genu, splenium = draws.normal(-0.42, 0.02), draws.normal(0.36, 0.02)
    from_midline = np.hypot(x, np.maximum(np.minimum(y - genu, splenium - y), 0)) + 0.004
    ax = np.abs(x) + draws.normal(0, 0.02) * np.sign(x)
    low = draws.normal(0, 0.03)
    outer = _from_line(ax, y, (0.70, -0.14 + low), (0.47, -0.02)) - 0.008
    insula = _from_line(ax, y, (0.455, -0.14), (0.47, 0.12))
    distance: Floats = np.minimum(from_midline, np.minimum(outer, insula))
    return distance


def _from_line(x: Floats, y: Floats, start: tuple[float, float | Floats], end: tuple[float, float]) -> Floats:
    """Distance to a straight piece."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    t = np.clip(((x - start[0]) * dx + (y - start[1]) * dy) / (dx * dx + dy * dy), 0, 1)
    distance: Floats = np.hypot(x - start[0] - t * dx, y - start[1] - t * dy)
    return distance


def _ventricles(canvas: Canvas, draws: Draws, ax: Floats, y: Floats, signs: Signs) -> Floats:
    # The two sides are never quite the same.
    side = canvas.inside(canvas.x, 0.1)
    grown = np.clip(signs.ventricles * (1 + side * draws.normal(0, 0.12)) + draws.normal(0, 0.04), 0, 1.5)
    # Frontal horns: commas that part towards the front, fattest there.
    s = (-0.05 - y) / (0.27 + 0.06 * grown)
    half = (0.024 + 0.058 * grown) * np.sqrt(np.clip(s * (1.12 - s), 0, 1)) * (0.7 + 0.7 * s)
    front = np.minimum(
        0.25 * np.minimum(s, 1.12 - s), half - np.abs(ax - 0.035 - 0.035 * grown - (0.07 + 0.03 * grown) * s**2)
    )
    # Atria and occipital horns: drops that curve outwards, then back.
    s = (y - 0.13) / (0.27 + 0.08 * grown)
    half = (0.032 + 0.072 * grown) * np.sqrt(np.clip(s * (1 - s), 0, 1)) * (1.5 - 0.9 * s)
    back = np.minimum(0.25 * np.minimum(s, 1 - s), half - np.abs(ax - 0.13 - 0.03 * grown - 0.16 * s * (1.5 - s)))
    third = 0.006 + 0.020 * grown - np.hypot(ax, np.maximum(np.abs(y - 0.04) - 0.08, 0))
    temporal = 0.002 + 0.030 * signs.hippocampus - _from_line(ax, y, (0.33, 0.15), (0.40, 0.25))
    return canvas.inside(np.maximum(np.maximum(front, back), np.maximum(third, temporal)), 0.012)


def _nuclei(canvas: Canvas, draws: Draws, ax: Floats, y: Floats, signs: Signs) -> Floats:
    """Grey matter in the depth: caudate, putamen, thalamus, and the hippocampus that dementia eats."""

    def oval(x0: float, y0: float, across: float | Floats, along: float | Floats, lean: float) -> Floats:
        dx, dy = ax - x0 - draws.normal(0, 0.008), y - y0 - draws.normal(0, 0.01)
        r = np.hypot((dx - lean * dy) / across, dy / along)
        return canvas.inside((1 - r) * 0.07, 0.018)

    kept = 1 - 0.55 * signs.hippocampus
    parts = (
        oval(0.165, -0.22, 0.05, 0.10, -0.35),
        oval(0.30, -0.05, 0.065, 0.16, 0.25),
        oval(0.11, 0.06, 0.085, 0.13, 0.2),
        oval(0.32, 0.24, 0.07 * kept, 0.09 * kept, 0.3),
    )
    return np.maximum(np.maximum(parts[0], parts[1]), np.maximum(parts[2], parts[3]))


def _scan(canvas: Canvas, slice_: Floats, draws: Draws) -> Floats:
    """Coil sensitivity, contrast, and the noise of a magnitude image."""
    coil = 1 + 0.05 * canvas.waves(draws, 1.5, 4.0, 6)
    seen = np.clip(slice_ * coil, 0, 1) ** draws.uniform(0.85, 1.25) * draws.uniform(0.82, 1.08)
    noise = draws.uniform(0.008, 0.025)
    real = seen + noise * canvas.grain(draws.child("real"))
    return np.clip(np.hypot(real, noise * canvas.grain(draws.child("imaginary"))), 0, 1)

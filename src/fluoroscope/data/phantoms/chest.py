"""Frontal chest films: normal, or with consolidated lung."""

import numpy as np
from numpy.typing import NDArray

from fluoroscope.data.phantoms.canvas import Canvas, Pose
from fluoroscope.data.phantoms.devices import devices
from fluoroscope.data.phantoms.draws import Draws, Floats
from fluoroscope.data.phantoms.font import render
from fluoroscope.data.phantoms.lung_markings import lung_markings
from fluoroscope.data.phantoms.opacity import opacity
from fluoroscope.data.phantoms.thorax import frame, thorax

CLASSES = ("normal", "opacity")


def draw(size: int, patient: Draws, image: Draws, labels: NDArray[np.int64]) -> Floats:
    """Films (rows, 1, size, size) in [0, 1]."""
    habit = patient.child("pose")
    shot = image.child("pose")
    pose = Pose(
        angle=shot.normal(0, 0.025),
        scale=habit.normal(1.04, 0.075) + shot.normal(0, 0.015),
        right=habit.normal(0, 0.03) + shot.normal(0, 0.02),
        down=habit.normal(0.07, 0.05) + shot.normal(0, 0.02),
    )
    canvas = Canvas(size, pose)
    measures = frame(patient, shot.normal(0, 1))
    chest = thorax(canvas, patient, measures)
    density = chest.density + chest.air * lung_markings(canvas, patient.child("vessels"), measures)
    present = labels[:, None].astype(np.float32)
    density += chest.air * opacity(canvas, patient.child("opacity"), measures, present)
    density += devices(canvas, patient.child("devices"), measures)
    film = _expose(canvas, density, image.child("film"))
    return _mark(film, image.child("marker"))[:, None]


def _expose(canvas: Canvas, density: Floats, draws: Draws) -> Floats:
    """From density to a picture: scatter, the film's curve, and grain. Says nothing about disease by intent."""
    tilt = draws.normal(0, 0.04) * canvas.x + draws.normal(0, 0.03) * canvas.y
    contrast = draws.uniform(1.8, 4.6)
    middle = draws.uniform(0.36, 0.60)
    curve = np.tanh(contrast * 0.5 * (density + tilt - middle))
    low = np.tanh(contrast * 0.5 * (0.0 - middle))
    high = np.tanh(contrast * 0.5 * (0.95 - middle))
    film = (curve - low) / (high - low)
    black, white = draws.uniform(0.0, 0.10), draws.uniform(0.74, 1.0)
    film = black + (white - black) * film + draws.uniform(0.003, 0.010) * canvas.grain(draws.child("grain"))
    picture: Floats = np.clip(film * _collimator(canvas, draws.child("collimator")), 0, 1)
    return picture


def _collimator(canvas: Canvas, draws: Draws) -> Floats:
    """Black edges where the beam was narrowed, on one film in seven."""
    edges = 1.0 - draws.chance(0.15) * draws.uniform(-0.1, 0.2, 4)[:, :, None, None].transpose(1, 0, 2, 3)
    lean = 0.02 * draws.normal()
    sides = (canvas.across + lean * canvas.down, -canvas.across, canvas.down, -canvas.down + lean * canvas.across)
    open_: Floats = np.ones_like(canvas.x)
    for edge, side in zip(edges, sides, strict=True):
        open_ = open_ * canvas.inside(edge + 0.02 - side, 0.004)
    return open_


def _mark(film: Floats, draws: Draws) -> Floats:
    """The lead letter that says which side is which; there is no room for it on a thumbnail."""
    size = film.shape[-1]
    if size < 48:
        return film
    film = film.copy()
    scale = max(1, round(size / 80))
    letters = {"R": render("R", scale), "L": render("L", scale)}
    which, shown = draws.choice(2), draws.chance(0.45)[:, 0, 0]
    inwards, down = draws.uniform(0.03, 0.1)[:, 0, 0] * size, draws.uniform(0.03, 0.15)[:, 0, 0] * size
    for row in np.flatnonzero(shown):
        letter = letters["RL"[which[row]]]
        height, width = letter.shape
        top, left = int(down[row]), int(inwards[row])
        left = left if which[row] == 0 else size - left - width
        film[row, top : top + height, left : left + width][letter] = 0.95
    return film

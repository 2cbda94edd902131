"""Colour photographs of the back of the eye, graded 0 to 4 by the signs of diabetic retinopathy.

The optic disc is the origin and x runs towards the temple; `side` mirrors that for the left eye.
"""

import numpy as np
from numpy.typing import NDArray

from fluoroscope.data.phantoms.canvas import Canvas, Pose
from fluoroscope.data.phantoms.draws import Draws, Floats
from fluoroscope.data.phantoms.lesions import lesions
from fluoroscope.data.phantoms.retina import background, vessels

CLASSES = ("grade-0", "grade-1", "grade-2", "grade-3", "grade-4")


def draw(size: int, patient: Draws, image: Draws, labels: NDArray[np.int64]) -> Floats:
    """Photographs (rows, 3, size, size) in [0, 1]."""
    side = np.sign(patient.child("side").uniform(-1, 1))
    gaze, shot = patient.child("gaze"), image.child("gaze")
    pose = Pose(
        angle=gaze.normal(0, 0.06) + shot.normal(0, 0.02),
        scale=gaze.normal(1.0, 0.05) + shot.normal(0, 0.01),
        right=-side * gaze.uniform(0.0, 0.42) + shot.normal(0, 0.03),
        down=gaze.normal(0, 0.05) + shot.normal(0, 0.03),
    )
    canvas = Canvas(size, pose)
    macula = side * patient.child("macula").normal(0.60, 0.03)
    colour = background(canvas, patient, macula)
    found = lesions(canvas, patient.child("lesions"), side[:, :, 0], labels)
    colour = _mix(colour, found.wool, (1.0, 0.94, 0.78))
    colour = _mix(colour, found.exudate, (1.0, 0.90, 0.45))
    colour = _absorb(colour, vessels(canvas, patient.child("vessels"), side[:, :, 0], macula), (0.40, 0.80, 0.85))
    colour = _absorb(colour, found.blood, (0.50, 0.86, 0.88))
    return _photograph(canvas, colour, image.child("camera"))


def _mix(colour: Floats, amount: Floats, towards: tuple[float, float, float]) -> Floats:
    """Paint over; what is painted is lit as its surroundings are."""
    light = colour.max(axis=1, keepdims=True)
    target = np.array(towards, dtype=np.float32)[None, :, None, None] * np.clip(1.25 * light, 0, 1)
    mixed: Floats = colour + amount[:, None] * (target - colour)
    return mixed


def _absorb(colour: Floats, amount: Floats, by: tuple[float, float, float]) -> Floats:
    """Blood takes green and blue out of the light more than red."""
    return colour * (1 - amount[:, None] * np.array(by, dtype=np.float32)[None, :, None, None])


def _photograph(canvas: Canvas, colour: Floats, draws: Draws) -> Floats:
    """The camera's flash, haze, grain and round aperture."""
    u, v = canvas.across, canvas.down
    radius = np.sqrt(u**2 + v**2)
    off_x, off_y = draws.normal(0, 0.35), draws.normal(0, 0.3)
    flash = 1.08 - draws.uniform(0.25, 0.95) * ((u - off_x) ** 2 + (v - off_y) ** 2) * 0.5
    light = draws.uniform(0.75, 1.12) * np.clip(flash, 0.08, 1.2)
    # The lens cap's glow: a crescent at one edge.
    toward = draws.uniform(0, 2 * np.pi)
    crescent = np.clip((u * np.cos(toward) + v * np.sin(toward)) * 1.5 - 0.75, 0, 1) ** 2
    glow = (draws.chance(0.4) * draws.uniform(0.1, 0.5) * crescent)[:, None]
    haze = draws.uniform(0, 0.10)[:, None]
    tint = 1 + draws.normal(0, 0.05, 3)[:, :, None, None]
    seen = (
        colour * light[:, None] * tint * (1 - haze) + haze * np.array([0.5, 0.4, 0.3], dtype=np.float32)[:, None, None]
    )
    seen = seen + glow * np.array([0.55, 0.6, 0.4], dtype=np.float32)[:, None, None]
    seen = seen + draws.uniform(0.004, 0.015)[:, None] * canvas.grain(draws.child("grain"))[:, None]
    aperture = canvas.inside(draws.uniform(0.94, 0.99) - radius, 0.008)
    picture: Floats = np.clip(seen, 0, 1) * aperture[:, None]
    return picture

"""Curves as points, in closed form: more points make a smoother line, never another one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fluoroscope.data.phantoms.draws import Floats


def points_for(size: int, length: float, sigma: float) -> int:
    """How many spots make a smooth stroke: gaps of two widths, as the pixels blur them, ripple by one per cent."""
    return max(3, int(np.ceil(length / (2.0 * np.hypot(sigma, 1.0 / size)))))


def _steps(points: int) -> Floats:
    return (np.arange(points, dtype=np.float32) + np.float32(0.5)) / np.float32(points)


@dataclass(frozen=True)
class Curves:
    """Vessels that set out from (x, y) and veer off their heading; every field is (rows, curves)."""

    x: Floats
    y: Floats
    heading: Floats
    """In radians, from the x axis towards the y axis."""
    length: Floats
    bend: Floats
    """How far the end lies beside the straight line, as a share of the length."""

    def trace(self, points: int) -> tuple[Floats, Floats]:
        """Points along each curve, (rows, curves, points)."""
        x, y, heading, length, bend = (v[:, :, None] for v in (self.x, self.y, self.heading, self.length, self.bend))
        return _place(x, y, heading, length, bend, _steps(points))

    def forks(self, at: Floats) -> tuple[Floats, Floats, Floats]:
        """Place and heading at these fractions, (rows, curves times k) for k forks a curve."""
        each = at.shape[1] // self.bend.shape[1]
        x, y, heading, length, bend = (
            np.broadcast_to(v, self.bend.shape).repeat(each, axis=1)
            for v in (self.x, self.y, self.heading, self.length, self.bend)
        )
        place_x, place_y = _place(x, y, heading, length, bend, at)
        return place_x, place_y, heading + np.arctan(2 * bend * at)


def _place(x: Floats, y: Floats, heading: Floats, length: Floats, bend: Floats, t: Floats) -> tuple[Floats, Floats]:
    cos, sin = np.cos(heading), np.sin(heading)
    forward = length * t * (1 - np.float32(0.15) * np.abs(bend) * t)
    # A slow wave on top of the parabola: no vessel is a perfect arc.
    sideways = length * (bend * t * t + np.float32(0.03) * np.sin(7 * t + 40 * heading))
    return x + forward * cos - sideways * sin, y + forward * sin + sideways * cos


def bezier(knots: Sequence[tuple[Floats, Floats]], points: int) -> tuple[Floats, Floats]:
    """Cubic Bezier curves through four knots x and y, each (rows, curves); gives (rows, curves, points)."""
    t = _steps(points)
    shares = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    x, y = np.float32(0) * knots[0][0][:, :, None], np.float32(0) * knots[0][1][:, :, None]
    for (knot_x, knot_y), share in zip(knots, shares, strict=True):
        x, y = x + knot_x[:, :, None] * share, y + knot_y[:, :, None] * share
    return x, y

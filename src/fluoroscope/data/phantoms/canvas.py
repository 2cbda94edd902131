"""What phantoms are drawn with: posed coordinates, soft edges, dots, strokes and waves, all smoothed to the pixel.

Every mark is a formula of the position, so a patient has the same anatomy at every size.
"""

from dataclasses import dataclass

import numpy as np

from fluoroscope.data.phantoms.draws import Draws, Floats


@dataclass(frozen=True)
class Pose:
    """How the patient lies on the film; each is (rows, 1, 1). Lengths are halves of the image's side."""

    angle: Floats
    scale: Floats
    right: Floats
    down: Floats


class Canvas:
    """A stack of square images seen in the patient's own coordinates: x to the right, y down, about -1 to 1."""

    def __init__(self, size: int, pose: Pose) -> None:
        self.size = size
        self.pose = pose
        self.rows = len(pose.scale)
        self._cos, self._sin = np.cos(pose.angle), np.sin(pose.angle)
        self._line = ((2 * np.arange(size, dtype=np.float32) + 1) / size - 1).astype(np.float32)
        self.across, self.down = self._line[None, None, :], self._line[None, :, None]
        """Coordinates of the film itself, for what does not move with the patient."""
        u, v = self.across - pose.right, self.down - pose.down
        self.x = (self._cos * u + self._sin * v) / pose.scale
        self.y = (self._cos * v - self._sin * u) / pose.scale
        self.pixel = 2 / size
        """A pixel's side."""

    def blank(self) -> Floats:
        return np.zeros((self.rows, self.size, self.size), dtype=np.float32)

    def inside(self, distance: Floats, softness: float = 0.01) -> Floats:
        """1 where the distance to an edge is well above 0, 0 where it is well below, smooth between."""
        width = float(np.hypot(softness, self.pixel * 0.6))
        t = distance * (0.5 / width)
        t += 0.5
        np.clip(t, 0, 1, out=t)
        smooth: Floats = 3 - 2 * t
        smooth *= t
        smooth *= t
        return smooth

    def dots(self, x: Floats, y: Floats, sigma: Floats, weight: Floats) -> Floats:
        """The sum of round Gaussian spots; every argument is (rows, spots)."""
        sigma = sigma * self.pose.scale[:, :, 0]
        seen = np.sqrt(sigma**2 + (0.5 * self.pixel) ** 2)
        return self._spots(x, y, seen, weight * (sigma / seen) ** 2)

    def strokes(self, x: Floats, y: Floats, sigma: Floats, weight: Floats) -> Floats:
        """Curves with a Gaussian profile; every argument is (rows, curves, points along the curve)."""
        sigma = sigma * self.pose.scale
        seen = np.sqrt(sigma**2 + (0.5 * self.pixel) ** 2)
        step = np.hypot(np.gradient(x, axis=2), np.gradient(y, axis=2)) * self.pose.scale
        ridge = weight * (sigma / seen) * step / (seen * np.float32((2 * np.pi) ** 0.5))
        flat = (self.rows, -1)
        return self._spots(x.reshape(flat), y.reshape(flat), seen.reshape(flat), ridge.reshape(flat))

    def _spots(self, x: Floats, y: Floats, sigma: Floats, weight: Floats) -> Floats:
        # A round Gaussian is a column times a row wherever it sits and however the patient is turned.
        cos, sin, scale = self._cos[:, :, 0], self._sin[:, :, 0], self.pose.scale[:, :, 0]
        u = scale * (cos * x - sin * y) + self.pose.right[:, :, 0]
        v = scale * (sin * x + cos * y) + self.pose.down[:, :, 0]
        places = np.concatenate([v, u], axis=1)
        narrow = np.tile(np.float32(0.5**0.5) / sigma, (1, 2))
        image = self.blank()
        # One image at a time stays in the processor's cache; most have no pacemaker, and need no work for it.
        for row in np.flatnonzero(weight.any(axis=1)):
            bells = (self._line - places[row, :, None]) * narrow[row, :, None]
            np.negative(np.square(bells, out=bells), out=bells)
            np.exp(bells, out=bells)
            image[row] = _sum_of_products(bells, weight[row])
        return image

    def waves(self, draws: Draws, shortest: float, longest: float, count: int = 40) -> Floats:
        """Smooth noise of unit variance between two wavelengths: a sum of plane waves, fixed to the patient."""
        length = shortest * (longest / shortest) ** draws.uniform(count=count)
        direction = draws.uniform(0, 2 * np.pi, count)
        phase = draws.uniform(0, 2 * np.pi, count)
        kx, ky = 2 * np.pi * np.cos(direction) / length, 2 * np.pi * np.sin(direction) / length
        cos, sin, scale = self._cos[:, :, 0], self._sin[:, :, 0], self.pose.scale[:, :, 0]
        ku, kv = (kx * cos - ky * sin) / scale, (kx * sin + ky * cos) / scale
        phase = phase - ku * self.pose.right[:, :, 0] - kv * self.pose.down[:, :, 0]
        # What a pixel averages away; without it short waves would alias at small sizes.
        height = np.float32((2 / count) ** 0.5) * np.exp(-((ku * self.pixel) ** 2 + (kv * self.pixel) ** 2) / 24)
        along = ku[:, :, None] * self._line + phase[:, :, None]
        down = kv[:, :, None] * self._line
        # cos(a + b) = cos a cos b - sin a sin b: columns times rows again.
        factors = np.concatenate([np.cos(down), np.sin(down), np.cos(along), np.sin(along)], axis=1)
        weight = np.concatenate([height, -height], axis=1)
        return np.stack([_sum_of_products(*each) for each in zip(factors, weight, strict=True)])

    def grain(self, draws: Draws) -> Floats:
        """Independent noise of unit variance in every pixel."""
        return draws.normal(count=self.size**2).reshape(self.rows, self.size, self.size)


def band(offset: Floats) -> Floats:
    """A bell with a flat top, 1 at 0 and gone beyond 1.5: the profile of a bone."""
    bell: Floats = np.exp(-((offset**2) ** 2))
    return bell


def _sum_of_products(factors: Floats, weight: Floats) -> Floats:
    """The sum of weight[k] * outer(factors[k], factors[n + k]), the same to the last bit whatever BLAS or threads.

    Factors, from -1 to 1, are rounded to 9 binary places, weighted ones relative to the largest weight. Products then
    have 18, and float32 adds 64 of the largest without error. What is lost is below a grey level.
    """
    count = len(weight)
    places = np.float32(2.0**9)
    unit = np.exp2(9 - np.ceil(np.log2(np.abs(weight).max()))).astype(np.float32)
    columns = np.rint(factors[:count] * (weight * unit)[:, None])
    rows = np.rint(factors[count:] * places)
    product: Floats = (columns.T @ rows) * (1 / (unit * places))
    return product

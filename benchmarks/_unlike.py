"""Sets that are unlike medical images, of what scikit-learn and scikit-image bring along: nothing is loaded."""

import numpy as np
import skimage.data
import torch
from numpy.typing import NDArray
from skimage.transform import resize
from sklearn.datasets import load_digits

from fluoroscope.types import ImageSet, PrivateBatch

PICTURES = ("camera", "coins", "moon", "page", "text", "clock", "brick", "grass", "gravel", "cell", "horse")
CROPS, ELLIPSES = 2500, 1500
SIDE = 28
NARROW, WIDE = 28, 120
"""Sides of a crop: of some pictures it is blank."""


def digits() -> ImageSet:
    """Handwritten digits: dark, with bright strokes."""
    found = load_digits()
    return _set("digits", [resize(image / 16, (SIDE, SIDE), order=3).clip(0, 1) for image in found.images])


def crops() -> ImageSet:
    """Pieces of photographs and of pages of text, many nearly without contrast."""
    rng = np.random.default_rng(0)
    pictures = []
    for name in PICTURES:
        picture = np.asarray(getattr(skimage.data, name)(), dtype=np.float64)
        picture = picture[..., 0] if picture.ndim == 3 else picture
        pictures.append(picture / max(1.0, float(picture.max())))
    made = []
    for number in range(CROPS):
        picture = pictures[number % len(pictures)]
        side = int(rng.integers(NARROW, min(WIDE, *picture.shape)))
        row, column = (int(rng.integers(0, extent - side + 1)) for extent in picture.shape)
        made.append(resize(picture[row : row + side, column : column + side], (SIDE, SIDE), order=1).clip(0, 1))
    return _set("crops", made)


def ellipses() -> ImageSet:
    """Binary, some small, many nearly the same, as segmentations are."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    made = []
    for _ in range(ELLIPSES):
        x, y, radius, ratio = (float(rng.uniform(*ends)) for ends in ((6, 22), (6, 22), (3, 10), (0.5, 2)))
        made.append((((columns - x) / radius) ** 2 + ((rows - y) * ratio / radius) ** 2 < 1).astype(np.float64))
    return _set("ellipses", made)


def _set(name: str, made: list[NDArray[np.float64]]) -> ImageSet:
    images = torch.from_numpy(np.stack(made)).float()[:, None]
    labels = torch.arange(len(images)) % 2
    batch = PrivateBatch(images, labels, tuple(f"{name}-{i}" for i in range(len(images))))
    return ImageSet(name, batch, ("even", "odd"), "BSD-3-Clause", synthetic=name == "ellipses")

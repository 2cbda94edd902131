"""What a decoder gives back."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[Any]
Image = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Arrays:
    """What one file holds: images (1 or 3, height, width) in [0, 1], and its patient and site if the file says so."""

    images: tuple[Image, ...]
    patient: str | None = None
    site: str | None = None


def grey_if_equal(image: Image) -> Image:
    """One channel where an RGB image has three equal ones, as radiographs saved as JPEG often do."""
    if image.shape[0] == 3 and np.array_equal(image[0], image[1]) and np.array_equal(image[0], image[2]):
        return image[:1]
    return image

"""Folders of pictures: 8 and 16 bit PNG, JPEG, TIFF and BMP; see listing.py for the layout.

Without an `images.csv` the patient is the file itself. 8 bit values are divided by 255 and 16 bit values by 65535, so a
12 bit image in a 16 bit file comes out dark: rescale it when exporting. Transparent pixels are black, as the air
around a patient is.
"""

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from fluoroscope.data.channels import grey_if_equal
from fluoroscope.data.file_tree import load_tree
from fluoroscope.data.listing import FileKind
from fluoroscope.data.reading import Decoded
from fluoroscope.data.recognition import PICTURES
from fluoroscope.data.sources import SOURCES, Request
from fluoroscope.errors import BadInput
from fluoroscope.types import ImageSet

_FORMATS = ("PNG", "JPEG", "TIFF", "BMP")  # a closed list: Pillow knows formats that start other programs
_KIND = FileKind("folder", "pictures", PICTURES, required_columns=("file", "label", "patient"))
_WHITE_IS_ZERO = 0
_PHOTOMETRIC = 262


@SOURCES.register("folder")
def load_folder(location: Path | None, request: Request) -> ImageSet:
    """A folder of pictures with a subfolder for each class."""
    return load_tree(location, request, _KIND, read_picture)


def read_picture(path: Path) -> Decoded:
    """One picture, upright and in [0, 1]."""
    try:
        opened = Image.open(path, formats=_FORMATS)
    except UnidentifiedImageError:
        raise BadInput(f"is not an image ({', '.join(_FORMATS)})") from None
    with opened as image:
        tags = getattr(image, "tag_v2", {})
        if image.format == "TIFF" and getattr(image, "n_frames", 1) > 1:
            raise BadInput("is a stack of several images; save one image a file")
        upright = ImageOps.exif_transpose(image)
        values = _values(upright)
        # Pillow inverts 8 bit TIFFs whose zero is white, but not 16 bit ones.
        if upright.mode.startswith("I;16") and tags.get(_PHOTOMETRIC) == _WHITE_IS_ZERO:
            values = 1 - values
    return Decoded((grey_if_equal(values),))


def _values(image: Image.Image) -> Tensor:
    """(channels, height, width) in [0, 1]."""
    if image.mode.startswith("I"):
        return _scaled(image, 65535.0)
    if image.mode == "F":
        return _scaled(image, 1.0)
    if image.has_transparency_data:
        pixels = _scaled(image.convert("LA" if image.mode in ("1", "L", "LA") else "RGBA"), 255.0)
        return pixels[:-1] * pixels[-1:]
    return _scaled(image.convert("L" if image.mode in ("1", "L") else "RGB"), 255.0)


def _scaled(image: Image.Image, full: float) -> Tensor:
    pixels = np.asarray(image)
    pixels = pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
    low, high = pixels.min(), pixels.max()
    if low < 0 or high > full:
        raise BadInput(f"has values from {low:g} to {high:g}, but only 0 to {full:g} is understood; rescale it")
    return torch.from_numpy(np.ascontiguousarray(pixels, dtype=np.float32) / np.float32(full))

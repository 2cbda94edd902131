"""Pictures: 8 and 16 bit PNG, JPEG, TIFF and BMP, upright and in [0, 1]."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from fluoroscope.decoders.decoded import Arrays, Pixels, grey_if_equal
from fluoroscope.decoders.limits import check_pixels
from fluoroscope.errors import BadInput

_FORMATS = ("PNG", "JPEG", "TIFF", "BMP")  # a closed list: Pillow knows formats that start other programs
_WHITE_IS_ZERO = 0
_PHOTOMETRIC = 262


def decode_picture(path: Path) -> Arrays:
    """One picture."""
    try:
        opened = Image.open(path, formats=_FORMATS)
    except UnidentifiedImageError:
        raise BadInput(f"is not an image ({', '.join(_FORMATS)})") from None
    with opened as image:
        check_pixels(image.height, image.width)
        tags = getattr(image, "tag_v2", {})
        if image.format == "TIFF" and getattr(image, "n_frames", 1) > 1:
            raise BadInput("is a stack of several images; save one image a file")
        upright = ImageOps.exif_transpose(image)
        values = _values(upright)
        # Pillow inverts 8 bit TIFFs whose zero is white, but not 16 bit ones.
        if upright.mode.startswith("I;16") and tags.get(_PHOTOMETRIC) == _WHITE_IS_ZERO:
            values = 1 - values
    return Arrays((grey_if_equal(values),))


def _values(image: Image.Image) -> Pixels:
    """(channels, height, width) in [0, 1]."""
    if image.mode.startswith("I"):
        return _scaled(image, 65535.0)
    if image.mode == "F":
        return _scaled(image, 1.0)
    if image.has_transparency_data:
        pixels = _scaled(image.convert("LA" if image.mode in ("1", "L", "LA") else "RGBA"), 255.0)
        opaque: Pixels = pixels[:-1] * pixels[-1:]
        return opaque
    return _scaled(image.convert("L" if image.mode in ("1", "L") else "RGB"), 255.0)


def _scaled(image: Image.Image, full: float) -> Pixels:
    pixels = np.asarray(image)
    pixels = pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
    low, high = pixels.min(), pixels.max()
    if low < 0 or high > full:
        raise BadInput(f"has values from {low:g} to {high:g}, but only 0 to {full:g} is understood; rescale it")
    values = np.array(pixels, dtype=np.float32, order="C")
    values /= np.float32(full)
    return values

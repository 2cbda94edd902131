"""Images inside the page. Those of patients are blurred in their pixels, so that nothing can be made sharp again."""

import base64
import io
from pathlib import Path

from PIL import Image

from fluoroscope.errors import BadInput

BLURRED_TO = 6
"""Pixels a side that are left of a blurred image: brightness and no more."""
_LEAST_SIDE = 96
MOST_PIXELS = 2**22
"""Of an image on the page: 2048 x 2048."""


def data_uri(folder: Path, name: str, blur: bool) -> str:
    """The image as a data URI, without whatever else its file may hold (names, dates)."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BadInput(f"{folder / 'findings.json'}: the image {name!r} lies outside of the folder.")
    try:
        if not path.is_file():  # a pipe would never end
            raise FileNotFoundError(path)
        with Image.open(path, formats=("PNG",)) as opened:  # Pillow knows formats that start other programs
            if opened.width * opened.height > MOST_PIXELS:
                raise BadInput(
                    f"the image {path} of the gallery has {opened.width} x {opened.height} pixels; at most "
                    f"{MOST_PIXELS:,} are shown."
                )
            image = opened.convert("RGB" if len(opened.getbands()) > 2 else "L")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as problem:
        raise BadInput(f"the image {path} of the gallery is missing or damaged. Run the audit again.") from problem
    if blur:
        image = blurred(image)
    bare = Image.frombytes(image.mode, image.size, image.tobytes())
    buffer = io.BytesIO()
    bare.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def blurred(image: Image.Image) -> Image.Image:
    """A picture of the same shape that holds the means of 6 x 6 areas and nothing else."""
    scale = max(1.0, _LEAST_SIDE / max(image.size))
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    few = image.resize((BLURRED_TO, BLURRED_TO), Image.Resampling.BOX)
    return few.resize(size, Image.Resampling.BICUBIC)

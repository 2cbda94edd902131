"""Folders of pictures: 8 and 16 bit PNG, JPEG, TIFF and BMP; see listing.py for the layout.

Without an `images.csv` the patient is the file itself. 8 bit values are divided by 255 and 16 bit values by 65535, so a
12 bit image in a 16 bit file comes out dark: rescale it when exporting. Transparent pixels are black, as the air
around a patient is.
"""

from functools import partial
from pathlib import Path

from fluoroscope.data.file_tree import load_tree
from fluoroscope.data.listing import FileKind
from fluoroscope.data.reading import read_apart
from fluoroscope.data.recognition import PICTURES
from fluoroscope.data.sources import SOURCES, Request
from fluoroscope.types import ImageSet

_KIND = FileKind("folder", "pictures", PICTURES, required_columns=("file", "label", "patient"))
read_picture = partial(read_apart, "picture")
"""One picture, upright and in [0, 1]."""


@SOURCES.register("folder")
def load_folder(location: Path | None, request: Request) -> ImageSet:
    """A folder of pictures with a subfolder for each class."""
    return load_tree(location, request, _KIND, read_picture)

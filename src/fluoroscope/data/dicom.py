"""DICOM files in class folders, or anywhere below a folder whose `images.csv` labels them.

Values go the standard's way (decoders/dicom.py). A multi-frame file is a volume or a film: its middle frame stands for
it, since the first often shows nothing yet.
"""

from functools import partial
from pathlib import Path

from fluoroscope.data.file_tree import load_tree
from fluoroscope.data.listing import FileKind
from fluoroscope.data.reading import read_apart
from fluoroscope.data.sources import SOURCES, Request
from fluoroscope.types import ImageSet

_KIND = FileKind("dicom", "DICOM files", (".dcm", ".dicom"))
read_dicom = partial(read_apart, "dicom")
"""One DICOM image in [0, 1], its patient and its site."""


@SOURCES.register("dicom")
def load_dicom(location: Path | None, request: Request) -> ImageSet:
    """A tree of DICOM files, with or without the extension .dcm."""
    return load_tree(location, request, _KIND, read_dicom)

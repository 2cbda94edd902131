"""NIfTI volumes in class folders: one axial slice per volume, the middle one, unless more are asked for.

What a slice shows: decoders/volumes.py. Of a series over time the first volume is read. The patient is the file, unless
an `images.csv` says otherwise.
"""

from functools import partial
from pathlib import Path

from fluoroscope.data.file_tree import load_tree
from fluoroscope.data.listing import FileKind
from fluoroscope.data.reading import Decoded, read_apart
from fluoroscope.data.recognition import VOLUMES
from fluoroscope.data.sources import SOURCES, Request
from fluoroscope.types import ImageSet

_KIND = FileKind("nifti", "NIfTI volumes", VOLUMES, ignored=(".json", ".bval", ".bvec", ".tsv", ".txt"))


@SOURCES.register("nifti")
def load_nifti(location: Path | None, request: Request, slices: int = 1) -> ImageSet:
    """A tree of .nii and .nii.gz volumes; `slices` neighbouring ones around the middle of each."""
    return load_tree(location, request, _KIND, partial(read_volume, slices=slices), images_per_file=slices)


def read_volume(path: Path, slices: int = 1) -> Decoded:
    """The central axial slices of one volume, in [0, 1]."""
    return read_apart("nifti", path, slices=slices)

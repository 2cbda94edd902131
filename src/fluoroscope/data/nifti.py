"""NIfTI volumes in class folders: one axial slice a volume, the middle one, unless more are asked for.

Volumes are turned to canonical axes first; a slice is shown as radiologists do: front up, the patient's right at the
left. Values between the 0.5th and the 99.5th percentile of the volume span [0, 1]: a few bright vessels must not
darken the rest.
Of a series over time the first volume is read. The patient is the file, unless an `images.csv` says otherwise.
"""

from functools import partial
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import torch

from fluoroscope.data.file_tree import load_tree
from fluoroscope.data.listing import FileKind
from fluoroscope.data.reading import Decoded
from fluoroscope.data.recognition import VOLUMES
from fluoroscope.data.sources import SOURCES, Request
from fluoroscope.errors import BadInput
from fluoroscope.types import ImageSet

_KIND = FileKind("nifti", "NIfTI volumes", VOLUMES, ignored=(".json", ".bval", ".bvec", ".tsv", ".txt"))
_PERCENTILES = (0.5, 99.5)


@SOURCES.register("nifti")
def load_nifti(location: Path | None, request: Request, slices: int = 1) -> ImageSet:
    """A tree of .nii and .nii.gz volumes; `slices` neighbouring ones around the middle of each."""
    return load_tree(location, request, _KIND, partial(read_volume, slices=slices), images_per_file=slices)


def read_volume(path: Path, slices: int = 1) -> Decoded:
    """The central axial slices of one volume, in [0, 1]."""
    if not path.name.lower().endswith(VOLUMES):
        raise BadInput(f"is not a NIfTI volume ({' or '.join(VOLUMES)})")
    image: Any = nib.load(path)
    if image.get_data_dtype().kind not in "uif":
        raise BadInput(f"has {image.get_data_dtype()} voxels, but only real numbers are understood")
    if image.ndim < 2 or 0 in image.shape:
        raise BadInput(f"has the shape {image.shape}, which is no volume")
    while image.ndim > 3:
        image = image.slicer[..., 0]
    if image.ndim == 2:
        image = nib.Nifti1Image(np.asarray(image.dataobj, np.float32)[..., None], image.affine)  # type: ignore[no-untyped-call]
    canonical = nib.as_closest_canonical(image)  # type: ignore[no-untyped-call]
    volume = np.asarray(canonical.dataobj, dtype=np.float32)
    depth = volume.shape[2]
    if depth < slices:
        raise BadInput(f"has {depth} axial slices, but {slices} were asked for")
    if not np.isfinite(volume).all():
        raise BadInput("holds values that are not numbers (NaN or infinite)")
    black, white = np.percentile(volume, _PERCENTILES)
    if black == white:  # nearly all background
        black, white = volume.min(), volume.max()
    first = (depth - slices) // 2
    # x grows to the patient's right and y to the front: both turned round, and rows before columns.
    shown = volume[::-1, ::-1, first : first + slices].transpose(2, 1, 0)
    scaled = np.clip((shown - black) / ((white - black) or 1.0), 0, 1)
    return Decoded(tuple(torch.from_numpy(s.astype(np.float32))[None] for s in scaled))

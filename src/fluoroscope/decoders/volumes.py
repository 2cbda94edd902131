"""NIfTI volumes: the axial slices around the middle, as radiologists look at them.

A volume is turned to canonical axes first; front is up, the patient's right at the left. Values between the 0.5th and
the 99.5th percentile of the volume span [0, 1]: a few bright vessels must not darken the rest.
"""

from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from fluoroscope.decoders.decoded import Arrays
from fluoroscope.decoders.limits import check_pixels, check_voxels
from fluoroscope.errors import BadInput

SUFFIXES = (".nii", ".nii.gz")
_PERCENTILES = (0.5, 99.5)


def decode_volume(path: Path, slices: int = 1) -> Arrays:
    """The central axial slices of one volume; of a series over time, of its first."""
    if not path.name.lower().endswith(SUFFIXES):
        raise BadInput(f"is not a NIfTI volume ({' or '.join(SUFFIXES)})")
    image: Any = nib.load(path)
    if image.get_data_dtype().kind not in "uif":
        raise BadInput(f"has {image.get_data_dtype()} voxels, but only real numbers are understood")
    if image.ndim < 2 or min(image.shape) < 1:
        raise BadInput(f"has the shape {image.shape}, which is no volume")
    check_voxels(image.shape)
    while image.ndim > 3:
        image = image.slicer[..., 0]
    if image.ndim == 2:
        image = nib.Nifti1Image(np.asarray(image.dataobj, np.float32)[..., None], image.affine)  # type: ignore[no-untyped-call]
    canonical = nib.as_closest_canonical(image)  # type: ignore[no-untyped-call]
    volume = np.asarray(canonical.dataobj, dtype=np.float32)
    width, height, depth = volume.shape
    check_pixels(height, width)
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
    return Arrays(tuple(each.astype(np.float32)[None] for each in scaled))

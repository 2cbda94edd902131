"""DICOM: values go the standard's way, from stored ones to what a screen shows.

Modality LUT or rescale, then the first VOI LUT or window, MONOCHROME1 inverted. Without a usable window an image spans
its own darkest to brightest value. Padding is black. PatientID is the patient, InstitutionName the site.
"""

from pathlib import Path

import numpy as np
import pydicom
from pydicom.errors import InvalidDicomError
from pydicom.pixels.processing import apply_color_lut, apply_modality_lut, apply_voi, apply_windowing
from pydicom.pixels.utils import pixel_array

from fluoroscope.decoders.decoded import Arrays, Pixels, grey_if_equal
from fluoroscope.decoders.limits import check_pixels
from fluoroscope.errors import BadInput


def decode_dicom(path: Path) -> Arrays:
    """One DICOM image in [0, 1], its patient and its site."""
    try:
        dataset = pydicom.dcmread(path)
    except InvalidDicomError:
        raise BadInput("is not a DICOM file") from None
    if not any(key in dataset for key in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        raise BadInput(f"holds no image (modality {dataset.get('Modality', 'unknown')})")
    check_pixels(int(dataset.Rows), int(dataset.Columns))
    frames = int(dataset.get("NumberOfFrames") or 1)
    middle = frames // 2
    _lift_frame_settings(dataset, middle)
    stored = pixel_array(dataset, index=middle)  # YBR arrives as RGB
    image = _grey(stored, dataset) if stored.ndim == 2 else _colour(stored, dataset)
    patient, site = (str(dataset.get(key) or "").strip() or None for key in ("PatientID", "InstitutionName"))
    return Arrays((grey_if_equal(image.astype(np.float32)),), patient, site)


def _lift_frame_settings(dataset: pydicom.Dataset, frame: int) -> None:
    """Enhanced files keep rescale and window in sequences, per frame or shared; pydicom looks for them on top."""
    for groups, index in (("SharedFunctionalGroupsSequence", 0), ("PerFrameFunctionalGroupsSequence", frame)):
        items = dataset.get(groups) or []
        if index < len(items):
            for settings in ("PixelValueTransformationSequence", "FrameVOILUTSequence"):
                for item in items[index].get(settings) or []:
                    dataset.update(item)


def _grey(stored: Pixels, dataset: pydicom.Dataset) -> Pixels:
    if dataset.PhotometricInterpretation == "PALETTE COLOR":
        return _colour(apply_color_lut(stored, dataset), dataset)
    padding = _padding(stored, dataset)
    values = apply_modality_lut(stored, dataset)
    if not np.isfinite(values).all():
        raise BadInput("holds values that are not numbers (NaN or infinite)")
    if dataset.get("VOILUTSequence"):
        image = _through_table(values, dataset)
    elif _has_window(dataset):
        image = _through_window(values, dataset)
    else:
        image = _stretched(values, padding)
    if dataset.PhotometricInterpretation == "MONOCHROME1":
        image = 1 - image
    image[padding] = 0
    return image[None]


def _padding(stored: Pixels, dataset: pydicom.Dataset) -> Pixels:
    first = dataset.get("PixelPaddingValue")
    if first is None:
        return np.zeros(stored.shape, bool)
    last = dataset.get("PixelPaddingRangeLimit", first)
    padding: Pixels = (stored >= min(first, last)) & (stored <= max(first, last))
    return padding


def _has_window(dataset: pydicom.Dataset) -> bool:
    """Windows may be empty or of width 0, which the standard forbids and scanners write."""
    centre, width = dataset.get("WindowCenter"), dataset.get("WindowWidth")
    if centre in (None, "") or width in (None, ""):
        return False
    first = width[0] if dataset["WindowWidth"].VM > 1 else width
    exact = dataset.get("VOILUTFunction", "LINEAR") in ("LINEAR_EXACT", "SIGMOID")
    return bool(first > 0) if exact else bool(first >= 1)


def _through_window(values: Pixels, dataset: pydicom.Dataset) -> Pixels:
    with np.errstate(over="ignore"):  # the sigmoid of the far ends
        # pydicom maps the window onto the range of stored values: ask it where far below and far above go.
        black, white = apply_windowing(np.array([-1e12, 1e12]), dataset)
        shown: Pixels = (apply_windowing(values, dataset) - black) / (white - black)
    return np.clip(shown, 0, 1)


def _through_table(values: Pixels, dataset: pydicom.Dataset) -> Pixels:
    entries, first, _ = dataset.VOILUTSequence[0].LUTDescriptor
    last = first + (entries or 2**16) - 1
    table = apply_voi(np.arange(first, last + 1), dataset)
    # Clipped beforehand: apply_voi wraps around on values beyond the table.
    shown = apply_voi(np.clip(np.rint(values), first, last).astype(np.int64), dataset)
    black, white = float(table.min()), float(table.max())
    scaled: Pixels = (shown - black) / ((white - black) or 1.0)
    return scaled


def _stretched(values: Pixels, padding: Pixels) -> Pixels:
    inside = values[~padding] if not padding.all() else values
    black, white = float(inside.min()), float(inside.max())
    return np.clip((values.astype(np.float64) - black) / ((white - black) or 1.0), 0, 1)


def _colour(stored: Pixels, dataset: pydicom.Dataset) -> Pixels:
    bits = dataset.BitsStored
    if dataset.PhotometricInterpretation == "PALETTE COLOR":
        bits = stored.dtype.itemsize * 8
    return np.moveaxis(stored, -1, 0) / float(2**bits - 1)

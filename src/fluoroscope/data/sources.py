"""Data sources by name, and the one function that loads any of them.

A source is written `phantom/chest`, `folder:PATH`, `medmnist:FILE.npz`, `dicom:PATH` or `nifti:PATH`;
a bare path is recognised by what lies there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fluoroscope.registry import Registry
from fluoroscope.types import ImageSet


@dataclass(frozen=True)
class Request:
    """What the caller wants of a source; None leaves it as stored."""

    size: int | None = None
    """Side of the square image in pixels; files are resized with anti-aliasing."""
    channels: int | None = None
    """1 for grey, 3 for RGB."""
    images: int | None = None
    """How many to make (phantoms) or to keep at most (files: a seeded, stratified sample)."""
    seed: int = 0
    skip_bad: bool = False
    """Leave unreadable files out and count them, instead of stopping at the first."""
    burn_in: bool = False
    """Phantoms only: a fake name and date of birth in the image, as P1 fig. 7."""


Source = Callable[[Path | None, Request], ImageSet]
SOURCES: Registry[Source] = Registry("sources")

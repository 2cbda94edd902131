"""Data sources by name, and the one function that loads any of them.

A source is written `phantom/chest`, `folder:PATH`, `medmnist:FILE.npz`, `dicom:PATH` or `nifti:PATH`;
a bare path is recognised by what lies there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, get_args

from fluoroscope.data.recognition import recognise
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.registry import Registry
from fluoroscope.types import ImageSet

_MOST = {"size": 4096, "images": 10_000_000}
Folders = Literal["classes", "sites"]
"""What the subfolders of a folder of images are."""


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
    folders: Folders | None = None
    """None takes subfolders for classes, and asks where they look like sites (site_layout.py)."""

    def __post_init__(self) -> None:
        for key in ("size", "images"):
            value = getattr(self, key)
            if value is not None and not 1 <= value <= _MOST[key]:
                raise Misconfigured(f"{key} must be at least 1 and at most {_MOST[key]:,}, not {value}.")
        if self.channels not in (None, 1, 3):
            raise Misconfigured(f"channels must be 1 (grey) or 3 (RGB), not {self.channels}.")
        if self.folders not in (None, *get_args(Folders)):
            raise Misconfigured(f"folders must be {' or '.join(get_args(Folders))}, not {self.folders!r}.")


Source = Callable[[Path | None, Request], ImageSet]
SOURCES: Registry[Source] = Registry("sources")


def load(source: str, request: Request | None = None) -> ImageSet:
    """The images of a source such as `phantom/chest` or `folder:PATH`, or of a bare path."""
    request = request or Request()
    found = _load(source, request)
    if request.folders == "sites" and not found.sites:
        raise Misconfigured(f"{source} has no subfolders that could be sites; leave folders = 'sites' out.")
    return found


def _load(source: str, request: Request) -> ImageSet:
    if source in SOURCES:
        return SOURCES.get(source)(None, request)
    name, colon, location = source.partition(":")
    if colon and name in SOURCES:
        return SOURCES.get(name)(Path(location).expanduser() if location else None, request)
    path = Path(source).expanduser()
    if source and path.exists():
        return SOURCES.get(recognise(path))(path, request)
    if _means_a_path(source):
        raise BadInput(f"there is no file or folder {source!r}; check the path.")
    try:
        return SOURCES.get(name)(None, request)
    except Misconfigured as unknown:
        raise Misconfigured(f"{unknown} A path works too, but nothing lies at {source!r}.") from None


def _means_a_path(source: str) -> bool:
    """Whether a thing that does not exist was meant as a path rather than as a source's name."""
    if source.startswith(("/", ".", "~")):
        return True
    family, slash, _ = source.partition("/")
    families = {known.partition("/")[0] for known in SOURCES}
    if ":" in source or family in families or get_close_matches(source, list(SOURCES), n=1):
        return False  # `foldr:x`, `phantom/hcest`
    return bool(slash) or "\\" in source or Path(source).suffix != ""

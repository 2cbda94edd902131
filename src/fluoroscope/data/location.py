"""The checks that every source of files makes before it reads any."""

from pathlib import Path

from fluoroscope.data.sources import Request
from fluoroscope.errors import BadInput, Misconfigured


def existing(location: Path | None, request: Request, source: str) -> Path:
    """The location, once it is known to be there."""
    if location is None:
        raise Misconfigured(f"source {source!r} needs a location: write {source}:PATH.")
    if request.burn_in:
        raise Misconfigured(f"burn_in is for phantoms only; {source}:{location} are real images. Leave it out.")
    if not location.exists():
        raise BadInput(f"there is no file or folder {str(location)!r}; check the path after {source!r}.")
    return location

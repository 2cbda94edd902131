"""A source of files in folders: checked, listed and read; or one such tree per site."""

from pathlib import Path

from fluoroscope.data.bad_files import BadFiles
from fluoroscope.data.listing import FileKind, list_files
from fluoroscope.data.location import existing
from fluoroscope.data.reading import Reader, read_set
from fluoroscope.data.sites import load_site_folders
from fluoroscope.data.sources import Request
from fluoroscope.types import ImageSet


def load_tree(
    location: Path | None, request: Request, kind: FileKind, read: Reader, images_per_file: int = 1
) -> ImageSet:
    """All files of a kind below the location, as the request asks for them."""
    root = existing(location, request, kind.source)
    if request.folders == "sites":
        return load_site_folders(root, kind, request)
    bad = BadFiles(request.skip_bad)
    entries = list_files(root, kind, bad, request.folders)
    return read_set(root.resolve().name, entries, read, request, bad, images_per_file)

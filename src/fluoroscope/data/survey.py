"""A look at somebody's images before anything is planned: how many, how large, of whom, and from where."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from fluoroscope.data.reading import DifferentSizes
from fluoroscope.data.site_layout import LooksLikeSites
from fluoroscope.data.sites import Site, load_sites
from fluoroscope.data.sources import Request, load
from fluoroscope.types import ImageSet

_COUNTED_AT = 28
"""Pixels a side at which all images are read to count them: a large set must fit into memory."""
_SAMPLE = 12
"""Images that are read as they are."""


@dataclass(frozen=True)
class Survey:
    """What lies at a source."""

    source: str
    images: int
    sides: tuple[int, ...]
    """In pixels, the longer one of each image, of a sample; several where they differ."""
    channels: int
    classes: Mapping[str, int]
    """Images of each."""
    patients: int
    sites: Mapping[str, int]
    """Images of each; none where that is not known."""
    tables: tuple[Site, ...] = ()
    """Where every subfolder is a site: a source for each."""

    @property
    def one_image_per_patient(self) -> bool:
        """Whether each file stands for a patient of its own, as it does where nothing says whose it is."""
        return self.patients == self.images


def survey(source: str) -> Survey:
    """Read all images once, small, and a few as they are; what is wrong with a file is named here.

    Args:
        source: as `load` takes it. Subfolders that look like hospitals are taken for them.

    Raises:
        BadInput: there is nothing, or something cannot be read.
    """
    tables: tuple[Site, ...] = ()
    try:
        found = load(source, Request(size=_COUNTED_AT))
    except LooksLikeSites as problem:
        if not problem.sites:
            raise
        tables = tuple(Site(name, where) for name, where in problem.sites)
        found = _joined(tables)
    places = tuple(site.source for site in tables) or (source,)
    return Survey(
        source,
        len(found),
        tuple(sorted({side for place in places for side in _sides(place)})),
        found.channels,
        found.counts(range(len(found))),
        len(set(found.batch.patients)),
        Counter(found.sites),
        tables,
    )


def _joined(sites: tuple[Site, ...]) -> ImageSet:
    """All sites in the channels of the one that has most."""
    request = Request(size=_COUNTED_AT, folders="classes")
    channels = max(load(site.source, request).channels for site in sites)
    return load_sites("sites", sites, Request(size=_COUNTED_AT, channels=channels, folders="classes"))


def _sides(source: str) -> tuple[int, ...]:
    try:
        return (load(source, Request(images=_SAMPLE, folders="classes")).size,)
    except DifferentSizes as problem:
        return problem.sides

"""Procedural phantoms: nobody's chest, eye and brain, from a seed and an image's number alone.

They need no download and may always be shown. `phantoms(CHEST, [7], Request(seed=3))` is image 7 by itself,
`burned_label(CHEST, 3, 7)` is what `burn_in` writes on it.
"""

from pathlib import Path

from fluoroscope.data.phantoms import brain, burn_in, chest, fundus
from fluoroscope.data.phantoms.source import DEFAULT_IMAGES, Kind, phantoms
from fluoroscope.data.sources import SOURCES, Request, Source
from fluoroscope.errors import Misconfigured
from fluoroscope.types import ImageSet

CHEST = Kind("chest", chest.CLASSES, (15, 15), 1, chest.draw)
FUNDUS = Kind("fundus", fundus.CLASSES, (6, 6, 6, 6, 6), 3, fundus.draw)
BRAIN = Kind("brain", brain.CLASSES, (14, 1, 50, 35), 1, brain.draw)
"""P3 has 896, 64, 3200 and 2240 images of each class, train and test together: 64 times these quotas."""


def burned_label(kind: Kind, seed: int, index: int) -> burn_in.Label:
    """The name, date of birth and corner that `Request.burn_in` puts on this image."""
    (visit,) = kind.visits(seed, [index])
    return burn_in.label(kind.name, seed, visit.patient)


def _source(kind: Kind) -> Source:
    def load(location: Path | None, request: Request) -> ImageSet:
        if location is not None:
            raise Misconfigured(f"phantom/{kind.name} is made, not read: leave out the location {str(location)!r}.")
        images = DEFAULT_IMAGES if request.images is None else request.images
        if images < 1:
            raise Misconfigured(f"images must be at least 1, not {images}.")
        return phantoms(kind, range(images), request)

    return load


for _kind in (CHEST, FUNDUS, BRAIN):
    SOURCES.add(f"phantom/{_kind.name}", _source(_kind))

__all__ = ["BRAIN", "CHEST", "FUNDUS", "Kind", "burned_label", "phantoms"]

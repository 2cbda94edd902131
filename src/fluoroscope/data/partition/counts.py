"""A federation as it is: how many images of each class every client trains on."""

from dataclasses import dataclass

import numpy as np

from fluoroscope.data.partition.allocation import fill
from fluoroscope.data.partition.apportion import Counts, apportion, evenly
from fluoroscope.data.partition.registry import PARTITIONS
from fluoroscope.errors import Misconfigured
from fluoroscope.rng import numpy_generator
from fluoroscope.types import ClientSplit, ImageSet, Partition


@PARTITIONS.register("counts")
@dataclass(frozen=True)
class CountsSplit:
    """The clients' own numbers, and validation sets with their mix; test and auxiliary sets have all classes alike."""

    train: tuple[tuple[int, ...], ...]
    """A row for each client: its training images of each class, the classes in the order of their names."""
    validation: int = 20
    """Images in each client's validation set."""
    test: int = 100
    auxiliary: int = 0
    """Images for the public prior and for a server's own training."""

    def __post_init__(self) -> None:
        if not self.train or any(not sum(row) or min(row) < 0 for row in self.train):
            raise Misconfigured(
                f"train must have a row of counts for each client, with an image at least, not {self.train}."
            )
        for name in ("validation", "test", "auxiliary"):
            if getattr(self, name) < 0:
                raise Misconfigured(f"{name} must be 0 or more, not {getattr(self, name)}.")

    def divide(self, images: ImageSet, seed: int) -> Partition:
        classes, clients = len(images.classes), len(self.train)
        if wrong := [row for row in self.train if len(row) != classes]:
            raise Misconfigured(
                f"train has a row of {len(wrong[0])} counts, and {images.name} has {classes} classes: "
                f"{', '.join(images.classes)}."
            )
        demand = [np.array(row, dtype=np.int64) for row in self.train]
        demand += [_in_proportion(self.validation, row) for row in demand[:clients]]
        demand += [evenly(self.test, classes), evenly(self.auxiliary, classes)]
        remedy = "Lower train, validation, test or auxiliary, or load more images."
        bins = fill(images, np.stack(demand), numpy_generator(seed, "partition", "counts"), remedy).bins
        splits = tuple(ClientSplit(f"client-{i + 1}", bins[i], bins[clients + i]) for i in range(clients))
        return Partition(splits, test=bins[-2], auxiliary=bins[-1])


def _in_proportion(count: int, row: Counts) -> Counts:
    """So many images, in the mix of the row."""
    return apportion(np.array([count]), row[:, None].astype(np.float64))[:, 0]

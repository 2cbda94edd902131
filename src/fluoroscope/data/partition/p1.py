"""P1 table II: nine clients that differ in training images and batch size, the last one with a single image."""

from dataclasses import dataclass

import numpy as np

from fluoroscope.data.partition.allocation import fill
from fluoroscope.data.partition.apportion import Counts, evenly
from fluoroscope.data.partition.registry import PARTITIONS
from fluoroscope.errors import Misconfigured
from fluoroscope.rng import numpy_generator
from fluoroscope.types import ClientSplit, ImageSet, Partition

TABLE_II = {1: (8, 4), 2: (32, 4), 3: (128, 4), 4: (512, 4), 5: (8, 8), 6: (32, 8), 7: (128, 8), 8: (512, 8), 9: (1, 1)}
"""Training images and batch size by client."""

_HIGH_RISK = 9
_LENDER = 1
_REMEDY = "Lower validation, test or auxiliary, choose fewer clients, or load more images."


@PARTITIONS.register("p1")
@dataclass(frozen=True)
class P1Split:
    """Classes balanced everywhere; client 9 ("high-risk") takes its image and validation set from client 1's."""

    clients: tuple[int, ...] = tuple(TABLE_II)
    """Which of the nine, by their numbers in the table."""
    validation: int = 200
    """Images in each client's validation set."""
    test: int | None = None
    """Images in the test set, classes balanced; None takes every patient who is left."""
    auxiliary: int = 0
    """Images for the public prior: nobody's training, validation or test images."""
    normal: str | None = None
    """Name of the class that client 9's image is of; None takes one called normal or no-..., else the first."""

    def __post_init__(self) -> None:
        unknown = [client for client in self.clients if client not in TABLE_II]
        if unknown or not self.clients or len(set(self.clients)) != len(self.clients):
            raise Misconfigured(f"clients must be different numbers from 1 to 9, not {list(self.clients)}.")
        for name in ("validation", "test", "auxiliary"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise Misconfigured(f"{name} must be 0 or more, not {value}.")

    def divide(self, images: ImageSet, seed: int) -> Partition:
        rng = numpy_generator(seed, "partition", "p1")
        classes, normal = len(images.classes), self._normal(images)
        borrows = _HIGH_RISK in self.clients and _LENDER in self.clients
        owners = sorted(client for client in self.clients if not (borrows and client == _HIGH_RISK))
        demand = [_training(client, classes, normal) for client in owners]
        demand += [evenly(self.validation, classes)] * len(owners)
        demand += [evenly(self.auxiliary, classes), evenly(self.test or 0, classes)]
        allocation = fill(images, np.stack(demand), rng, _REMEDY)
        *own, auxiliary, test = allocation.bins
        test = allocation.untouched if self.test is None else test
        if not test and self.test != 0:
            raise Misconfigured(f"{images.name}: no patient is left for the test set. {_REMEDY}")
        splits = [
            ClientSplit(f"client-{client}", own[i], own[len(owners) + i], TABLE_II[client][1])
            for i, client in enumerate(owners)
        ]
        if borrows:
            lender = splits[owners.index(_LENDER)]
            image = next(i for i in lender.train if images.batch.labels[i] == normal)
            splits.append(ClientSplit(f"client-{_HIGH_RISK}", (image,), lender.validation, TABLE_II[_HIGH_RISK][1]))
        return Partition(tuple(splits), test, auxiliary)

    def _normal(self, images: ImageSet) -> int:
        """The class of client 9's image: P1 took a normal case."""
        if self.normal is None:
            healthy = [i for i, name in enumerate(images.classes) if name.lower().startswith("no")]
            return healthy[0] if healthy else 0
        if self.normal not in images.classes:
            raise Misconfigured(f"normal = {self.normal!r} is no class of {images.name}; it has {images.classes}.")
        return images.classes.index(self.normal)


def _training(client: int, classes: int, normal: int) -> Counts:
    return np.eye(classes, dtype=np.int64)[normal] if client == _HIGH_RISK else evenly(TABLE_II[client][0], classes)

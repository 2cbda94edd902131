"""Equal, stratified shares."""

from dataclasses import dataclass

import numpy as np

from fluoroscope.data.partition.registry import PARTITIONS
from fluoroscope.data.partition.shares import bin_shares, check_fractions, divide_by_shares
from fluoroscope.rng import numpy_generator
from fluoroscope.types import ImageSet, Partition


@PARTITIONS.register("iid")
@dataclass(frozen=True)
class IidSplit:
    """Every client has as much of every class as the others."""

    clients: int = 4
    validation: float = 0.2
    """Of each client's share."""
    test: float = 0.2
    """Of all images."""
    auxiliary: float = 0.0
    """Of all images."""

    def __post_init__(self) -> None:
        check_fractions(self.clients, self.validation, self.test, self.auxiliary)

    def divide(self, images: ImageSet, seed: int) -> Partition:
        equal = np.ones((self.clients, len(images.classes)))
        shares = bin_shares(equal, self.validation, self.test, self.auxiliary)
        return divide_by_shares(images, shares, numpy_generator(seed, "partition", "iid"))

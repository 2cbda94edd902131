"""P2 section V: five clients, and an auxiliary set that the attacker holds and that shares no patient with them."""

from dataclasses import dataclass

import numpy as np

from fluoroscope.data.partition.registry import PARTITIONS
from fluoroscope.data.partition.shares import bin_shares, check_fractions, divide_by_shares
from fluoroscope.rng import numpy_generator
from fluoroscope.types import ImageSet, Partition


@PARTITIONS.register("p2")
@dataclass(frozen=True)
class P2Split:
    """10 % auxiliary; the rest is test set and the clients' equal, stratified shares."""

    clients: int = 5
    auxiliary: float = 0.1
    """Of all images."""
    test: float = 0.1
    """Of all images."""
    validation: float = 0.1
    """Of each client's share."""

    def __post_init__(self) -> None:
        check_fractions(self.clients, self.validation, self.test, self.auxiliary)

    def divide(self, images: ImageSet, seed: int) -> Partition:
        equal = np.ones((self.clients, len(images.classes)))
        shares = bin_shares(equal, self.validation, self.test, self.auxiliary)
        return divide_by_shares(images, shares, numpy_generator(seed, "partition", "p2"))

"""Label skew: each class is divided among the clients by a draw from a Dirichlet distribution (Hsu et al. 2019)."""

from dataclasses import dataclass

from fluoroscope.data.partition.registry import PARTITIONS
from fluoroscope.data.partition.shares import bin_shares, check_fractions, divide_by_shares, train_counts
from fluoroscope.errors import Misconfigured
from fluoroscope.rng import numpy_generator
from fluoroscope.types import ImageSet, Partition

_DRAWS = 200


@PARTITIONS.register("dirichlet")
@dataclass(frozen=True)
class DirichletSplit:
    """Small alpha: a client sees few classes. Large alpha: all see the same mix. The test set is not skewed."""

    clients: int = 4
    alpha: float = 0.5
    validation: float = 0.2
    """Of each client's share."""
    test: float = 0.2
    """Of all images."""
    auxiliary: float = 0.0
    """Of all images."""

    def __post_init__(self) -> None:
        check_fractions(self.clients, self.validation, self.test, self.auxiliary)
        if not 0 < self.alpha < float("inf"):
            raise Misconfigured(f"alpha must be above 0, not {self.alpha}.")

    def divide(self, images: ImageSet, seed: int) -> Partition:
        rng = numpy_generator(seed, "partition", "dirichlet")
        for _ in range(_DRAWS):  # a draw that leaves a client with nothing is drawn again
            drawn = rng.dirichlet([self.alpha] * self.clients, size=len(images.classes)).T
            shares = bin_shares(drawn, self.validation, self.test, self.auxiliary)
            if train_counts(images, shares).min() >= 1:
                return divide_by_shares(images, shares, rng)
        raise Misconfigured(
            f"{images.name}: with alpha {self.alpha} some of {self.clients} clients always gets no image; "
            "raise alpha, choose fewer clients or load more images."
        )

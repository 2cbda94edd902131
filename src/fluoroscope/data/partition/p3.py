"""P3's splits of the Alzheimer MRI set, from its tables 1, 2, 3 and 8: class counts as printed.

A fifth of each client's share is its own test split, here its validation set. Of the held-out set one half trains the
initial parameters (auxiliary), the other half is the test set.
"""

from dataclasses import dataclass

import numpy as np

from fluoroscope.data.partition.allocation import class_counts, fill, spread
from fluoroscope.data.partition.apportion import Counts, apportion
from fluoroscope.data.partition.registry import PARTITIONS
from fluoroscope.errors import Misconfigured
from fluoroscope.rng import numpy_generator
from fluoroscope.types import ClientSplit, ImageSet, Partition

Table = tuple[tuple[int, int, int, int], ...]

CLASSES = ("mild", "moderate", "non", "very mild")
HELD_OUT: Table = ((172, 15, 634, 459),)
TABLE_2: Table = ((181, 12, 641, 446), (181, 12, 642, 445), (181, 12, 642, 445), (181, 13, 641, 445))
TABLE_3: Table = ((280, 16, 881, 615), (107, 13, 368, 280), (257, 17, 1054, 720), (80, 3, 263, 166))
# The rows add up, but their sum is 5220 and table 1 has 5120: 824 mild instead of 724, the other classes agree.
TABLE_8: Table = ((120, 9, 1122, 496), (180, 11, 894, 506), (524, 29, 550, 779))
_TABLE_8_MILD = 424
_VALIDATION = 0.2


@PARTITIONS.register("p3-homogeneous")
@dataclass(frozen=True)
class P3Homogeneous:
    """Table 2: four clients of 1280 images."""

    scale: float = 1.0
    """Multiplies every count; where the paper has some images of a class, one at least remains."""
    fit: bool = False
    """Divides all images there are, of any four classes, in the table's shares of each class."""

    def __post_init__(self) -> None:
        _check_scale(self.scale, self.fit)

    def divide(self, images: ImageSet, seed: int) -> Partition:
        return _divide(images, TABLE_2, self.scale, self.fit, seed)


@PARTITIONS.register("p3-table-3")
@dataclass(frozen=True)
class P3Table3:
    """Table 3: four clients of different size and mix."""

    scale: float = 1.0
    """As for P3Homogeneous."""
    fit: bool = False
    """As for P3Homogeneous."""

    def __post_init__(self) -> None:
        _check_scale(self.scale, self.fit)

    def divide(self, images: ImageSet, seed: int) -> Partition:
        return _divide(images, TABLE_3, self.scale, self.fit, seed)


@PARTITIONS.register("p3-table-8")
@dataclass(frozen=True)
class P3Table8:
    """Table 8: three clients for client inference; client 1 attacks client 3."""

    scale: float = 1.0
    """As for P3Homogeneous."""
    as_printed: bool = True
    """False gives client 3 424 mild images instead of 524: then the whole table fits into the paper's own data."""
    fit: bool = False
    """As for P3Homogeneous."""

    def __post_init__(self) -> None:
        _check_scale(self.scale, self.fit)

    def divide(self, images: ImageSet, seed: int) -> Partition:
        *others, (_, *rest) = TABLE_8
        fitting = (*others, (_TABLE_8_MILD, *rest))
        table: Table = TABLE_8 if self.as_printed else fitting  # type: ignore[assignment]
        return _divide(images, table, self.scale, self.fit, seed)


def _check_scale(scale: float, fit: bool) -> None:
    if not 0 < scale < float("inf"):
        raise Misconfigured(f"scale must be above 0, not {scale}.")
    if fit and scale != 1:
        raise Misconfigured(f"fit takes all images that there are, so scale = {scale:g} says nothing; set one of them.")


def _divide(images: ImageSet, table: Table, scale: float, fit: bool, seed: int) -> Partition:
    if len(images.classes) != len(CLASSES):
        raise Misconfigured(
            f"P3's tables need 4 classes ({', '.join(CLASSES)}), but {images.name} has {len(images.classes)}: "
            f"{', '.join(images.classes)}. Use the partition iid or dirichlet for it."
        )
    rng = numpy_generator(seed, "partition", "p3")
    train, validation = _halves(_scaled(table, scale), _VALIDATION)
    test, auxiliary = _halves(_scaled(HELD_OUT, scale), 0.5)
    demand = np.concatenate([train, validation, test, auxiliary])
    if fit:
        bins = spread(images, apportion(class_counts(images), demand.astype(np.float64)), rng).bins
    else:
        _check_names(images)
        bins = fill(images, demand, rng, f"Lower scale (now {scale:g}), load more images, or set fit = true.").bins
    clients = len(table)
    splits = tuple(ClientSplit(f"client-{i + 1}", bins[i], bins[clients + i]) for i in range(clients))
    return Partition(splits, test=bins[-2], auxiliary=bins[-1])


def _scaled(table: Table, scale: float) -> Counts:
    return np.maximum(np.rint(np.array(table) * scale), 1).astype(np.int64)


def _halves(counts: Counts, second: float) -> tuple[Counts, Counts]:
    """Each row in two, stratified; the first part keeps an image of every class."""
    parts = [apportion(row, np.array([[1 - second], [second]]) * np.ones(len(row))) for row in counts]
    taken = np.minimum(np.stack([part[1] for part in parts]), counts - 1)
    return counts - taken, taken


def _check_names(images: ImageSet) -> None:
    """The tables' columns are these classes in this order, which is also that of their sorted names."""
    plain = ["".join(c for c in name.lower() if c.isalpha()) for name in images.classes]
    expected = ("mild", "moderate", "no", "verymild")
    if not all(name.startswith(start) for name, start in zip(plain, expected, strict=True)):
        raise Misconfigured(
            f"P3's tables need the classes {', '.join(CLASSES)} in this order, but {images.name} has "
            f"{', '.join(images.classes)}. Rename them, set fit = true, or use the partition iid or dirichlet."
        )

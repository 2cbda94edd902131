"""Splits that use every image: fractions for test and auxiliary set, the rest among the clients."""

import numpy as np

from fluoroscope.data.partition.allocation import class_counts, spread
from fluoroscope.data.partition.apportion import Counts, Shares, apportion
from fluoroscope.errors import Misconfigured
from fluoroscope.types import ClientSplit, ImageSet, Partition


def check_fractions(clients: int, validation: float, test: float, auxiliary: float) -> None:
    """Refuses settings that leave nothing to train on."""
    if clients < 1:
        raise Misconfigured(f"clients must be at least 1, not {clients}.")
    for name, value in (("validation", validation), ("test", test), ("auxiliary", auxiliary)):
        if not 0 <= value < 1:
            raise Misconfigured(f"{name} must be a fraction from 0 to below 1, not {value}.")
    if test + auxiliary >= 1:
        raise Misconfigured(f"test {test} and auxiliary {auxiliary} leave nothing for the clients; lower one of them.")


def bin_shares(clients: Shares, validation: float, test: float, auxiliary: float) -> Shares:
    """(2 x clients + 2) x classes from clients x classes: training sets, validation sets, test, auxiliary."""
    mine = clients / clients.sum(axis=0) * (1 - test - auxiliary)
    ones = np.ones((1, clients.shape[1]))
    return np.concatenate([mine * (1 - validation), mine * validation, ones * test, ones * auxiliary])


def divide_by_shares(images: ImageSet, shares: Shares, rng: np.random.Generator) -> Partition:
    """The partition with shares as `bin_shares` lays them out."""
    *clients, test, auxiliary = spread(images, apportion(class_counts(images), shares), rng).bins
    half = len(clients) // 2
    splits = tuple(
        ClientSplit(f"client-{i + 1}", train, validation)
        for i, (train, validation) in enumerate(zip(clients[:half], clients[half:], strict=True))
    )
    for split in splits:
        if not split.train:
            raise Misconfigured(
                f"{images.name}: {split.name} gets no image to train on ({len(images)} images, {half} clients); "
                "choose fewer clients or load more images."
            )
    if shares[-2].any() and not test:
        raise Misconfigured(f"{images.name}: the test set is empty; raise its fraction or load more images.")
    return Partition(splits, test, auxiliary)


def train_counts(images: ImageSet, shares: Shares) -> Counts:
    """How many training images the shares mean for each client."""
    sums: Counts = apportion(class_counts(images), shares).sum(axis=1)
    return sums[: len(shares) // 2 - 1]

"""Puts patients into bins (a client's training set, the test set, ...), each bin with a number of images per class.

A patient never sits in two bins. `fill` meets every number exactly and leaves the rest unused; `spread` uses every
image and comes as near to the numbers as whole patients allow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fluoroscope.data.partition.apportion import Counts
from fluoroscope.errors import Misconfigured
from fluoroscope.types import ImageSet


@dataclass(frozen=True)
class Allocation:
    """Indices by bin, in random order, and those of patients of whom no image was used."""

    bins: tuple[tuple[int, ...], ...]
    untouched: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Patients:
    counts: Counts
    """patients x classes"""
    images: Sequence[npt.NDArray[np.int64]]

    def by_size(self, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Those with most images first, in random order among equals."""
        order = rng.permutation(len(self.images))
        return order[np.argsort(-self.counts.sum(axis=1)[order], kind="stable")]


def class_counts(images: ImageSet) -> Counts:
    """How many images of each class there are."""
    return np.bincount(images.batch.labels.numpy(), minlength=len(images.classes)).astype(np.int64)


def fill(images: ImageSet, demand: Counts, rng: np.random.Generator, remedy: str) -> Allocation:
    """Exactly `demand` (bins x classes) images; `remedy` ends the message when there are too few."""
    patients = _group(images)
    labels = images.batch.labels.numpy()
    # In random order first, since that prefers nobody. If it leaves gaps, those who are hardest to place come first.
    for order in (rng.permutation(len(patients.images)), patients.by_size(rng)):
        bins, open_demand, used = _fill_in_order(patients, labels, demand, order, rng)
        if not open_demand.any():
            untouched = [images for images, was_used in zip(patients.images, used, strict=True) if not was_used]
            return Allocation(_shuffled(bins, rng), _shuffled([untouched], rng)[0])
    raise Misconfigured(_shortage(images, demand, open_demand) + " " + remedy)


def spread(images: ImageSet, target: Counts, rng: np.random.Generator) -> Allocation:
    """Every image, near to `target` (bins x classes), whose columns must add up to the images there are."""
    patients = _group(images)
    open_demand = target.copy()
    bins: list[list[npt.NDArray[np.int64]]] = [[] for _ in target]
    for patient in patients.by_size(rng):
        counts = patients.counts[patient]
        chosen = _random_bin(open_demand, counts, rng)
        if chosen is None:  # fits nowhere: where it overflows least, among bins that were to have such images
            wanted = (target[:, counts > 0] > 0).any(axis=1)
            chosen = int(np.argmax(np.where(wanted, open_demand @ counts, np.iinfo(np.int64).min)))
        open_demand[chosen] -= counts
        bins[chosen].append(patients.images[patient])
    return Allocation(_shuffled(bins, rng), ())


def _group(images: ImageSet) -> _Patients:
    _, owner = np.unique(np.asarray(images.batch.patients), return_inverse=True)
    counts = np.zeros((int(owner.max()) + 1 if len(owner) else 0, len(images.classes)), dtype=np.int64)
    np.add.at(counts, (owner, images.batch.labels.numpy()), 1)
    order = np.argsort(owner, kind="stable")
    return _Patients(counts, np.split(order, np.cumsum(counts.sum(axis=1))[:-1]))


def _fill_in_order(
    patients: _Patients,
    labels: npt.NDArray[np.int64],
    demand: Counts,
    order: npt.NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[list[list[npt.NDArray[np.int64]]], Counts, npt.NDArray[np.bool_]]:
    """Bins, the demand that stays open, and which patients were used."""
    open_demand = demand.copy()
    bins: list[list[npt.NDArray[np.int64]]] = [[] for _ in demand]
    used = np.zeros(len(order), dtype=bool)
    waiting = []
    for patient in order:
        chosen = _random_bin(open_demand, patients.counts[patient], rng)
        if chosen is None:
            waiting.append(patient)
            continue
        open_demand[chosen] -= patients.counts[patient]
        bins[chosen].append(patients.images[patient])
        used[patient] = True
    for patient in waiting:  # too many images for any bin: only as many of them as are still needed
        usable = np.minimum(open_demand, patients.counts[patient])
        chosen = _weighted(usable.sum(axis=1), rng)
        if chosen is None:
            continue
        shuffled = rng.permutation(patients.images[patient])
        part = [shuffled[labels[shuffled] == label][:n] for label, n in enumerate(usable[chosen]) if n]
        open_demand[chosen] -= usable[chosen]
        bins[chosen].extend(part)
        used[patient] = True
    return bins, open_demand, used


def _random_bin(open_demand: Counts, counts: Counts, rng: np.random.Generator) -> int | None:
    """A bin that can take all of a patient's images, the likelier the more of their classes it still needs."""
    fits = (open_demand >= counts).all(axis=1)
    return _weighted(fits * open_demand[:, counts > 0].sum(axis=1), rng)


def _weighted(weights: Counts, rng: np.random.Generator) -> int | None:
    cumulated = np.cumsum(weights)
    total = int(cumulated[-1]) if len(cumulated) else 0
    return int(np.searchsorted(cumulated, rng.integers(total), side="right")) if total > 0 else None


def _shuffled(bins: Sequence[Sequence[npt.NDArray[np.int64]]], rng: np.random.Generator) -> tuple[tuple[int, ...], ...]:
    """Random order, so that a client's first batch is not all of one class."""
    return tuple(tuple(rng.permutation(np.concatenate(parts)).tolist()) if parts else () for parts in bins)


def _shortage(images: ImageSet, demand: Counts, open_demand: Counts) -> str:
    asked, missing, there = demand.sum(axis=0), open_demand.sum(axis=0), class_counts(images)
    parts = [
        f"{missing[label]} of class {name!r} (asks for {asked[label]}, there are {there[label]})"
        for label, name in enumerate(images.classes)
        if missing[label]
    ]
    text = f"{images.name}: the split is short of images: {', '.join(parts)}."
    if (missing > np.maximum(asked - there, 0)).any():
        most = int(_group(images).counts.sum(axis=1).max())
        text += f" A patient's images (up to {most}) may not be divided between two sides."
    return text

"""A partition as rows to print."""

from collections.abc import Iterable
from typing import TypedDict

from fluoroscope.types import ImageSet, Partition


class SplitRow(TypedDict):
    """One client, or what is not a client's. Plain values, ready for JSON."""

    part: str
    batch_size: int | None
    train: int | None
    validation: int | None
    images: int
    patients: int
    classes: dict[str, int]
    """Images by class name, training and validation together."""


def split_table(images: ImageSet, partition: Partition) -> list[SplitRow]:
    """A row for each client, then test, auxiliary and unused."""

    def row(
        part: str, indices: Iterable[int], batch_size: int | None, train: int | None, validation: int | None
    ) -> SplitRow:
        held = sorted(set(indices))
        return {
            "part": part,
            "batch_size": batch_size,
            "train": train,
            "validation": validation,
            "images": len(held),
            "patients": len({images.batch.patients[i] for i in held}),
            "classes": images.counts(held),
        }

    rows = [
        row(c.name, (*c.train, *c.validation), c.batch_size, len(c.train), len(c.validation)) for c in partition.clients
    ]
    held = {i for c in partition.clients for i in (*c.train, *c.validation)} | {*partition.test, *partition.auxiliary}
    rest = {
        "test": partition.test,
        "auxiliary": partition.auxiliary,
        "unused": [i for i in range(len(images)) if i not in held],
    }
    return rows + [row(part, indices, None, None, None) for part, indices in rest.items()]

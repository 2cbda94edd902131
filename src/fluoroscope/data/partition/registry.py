"""Partitions by name. Each is a frozen dataclass whose fields are its settings."""

from typing import Protocol

from fluoroscope.registry import Registry
from fluoroscope.types import ImageSet, Partition


class Partitioner(Protocol):
    """Divides a data set among clients, test and auxiliary set: the same for the same seed."""

    def divide(self, images: ImageSet, seed: int) -> Partition: ...


PARTITIONS: Registry[type[Partitioner]] = Registry("partitions")

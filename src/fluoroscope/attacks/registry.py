"""Attacks by name."""

from typing import Protocol

from torch import Generator

from fluoroscope.attacks.common.running import Kept, Observations, OnIteration, silent
from fluoroscope.registry import Registry
from fluoroscope.types import Capability, Reconstruction


class Attack(Protocol):
    """Settings as the fields of a frozen dataclass; what it needs to know; and the run."""

    @property
    def needs(self) -> frozenset[Capability]: ...

    def run(
        self, observations: Observations, rng: Generator, on_iteration: OnIteration = silent, checkpoint: Kept = None
    ) -> list[Reconstruction]:
        """A guess for each observation. `on_iteration` is told how many iterations of how many are done.

        With a checkpoint, a run that was stopped goes on where it was.
        """
        ...


ATTACKS: Registry[Attack] = Registry("attacks")

"""Attacks by name."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.registry import Registry
from fluoroscope.types import Capability, Observation, Reconstruction


class Attack(Protocol):
    """Settings as the fields of a frozen dataclass; what it needs to know; and the run."""

    @property
    def needs(self) -> frozenset[Capability]: ...

    def run(
        self,
        observations: Sequence[Observation],
        rng: torch.Generator,
        on_iteration: Callable[[int, int], None] = ...,
        checkpoint: Checkpoint | None = None,
    ) -> list[Reconstruction]:
        """A guess for each observation. `on_iteration` is told how many iterations of how many are done.

        With a checkpoint, a run that was stopped goes on where it was.
        """
        ...


ATTACKS: Registry[Attack] = Registry("attacks")

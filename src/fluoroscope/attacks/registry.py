"""Attacks by name."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from fluoroscope.registry import Registry
from fluoroscope.types import Capability, Observation, Reconstruction


class Attack(Protocol):
    """Settings as the fields of a frozen dataclass; what it needs to know; and the run."""

    @property
    def needs(self) -> frozenset[Capability]: ...

    def run(
        self, observations: Sequence[Observation], rng: torch.Generator, on_iteration: Callable[[int, int], None]
    ) -> list[Reconstruction]: ...


ATTACKS: Registry[Attack] = Registry("attacks")

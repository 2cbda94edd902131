"""A registered network by name: what a plan names and a record stores.

`MODELS` holds the builders; a builder takes an Architecture and gives a module with torch's default randomness, which
`build` seeds, so the same (architecture, seed) is the same network anywhere.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from fluoroscope.errors import Misconfigured
from fluoroscope.registry import Registry
from fluoroscope.rng import derive, seeded_globals
from fluoroscope.types import Network
from fluoroscope.types.network import Shape

MOST_WEIGHTS = 2**30
_USUAL = 2**24
"""Pixels times classes below which no registered network comes near that many."""


@dataclass(frozen=True)
class Architecture(Network):
    """A registered network: enough to make the same one anywhere.

    Example:
        >>> Architecture("resnet18", channels=1, classes=2, size=64).input_shape
        (1, 64, 64)
    """

    name: str
    channels: int
    classes: int
    size: int | tuple[int, int]
    """The side of a square image, or height and width."""
    weights: str | None = None
    """Path of a state dict to start from; None starts at the architecture's own initialisation."""

    @property
    def height(self) -> int:
        return self.size if isinstance(self.size, int) else self.size[0]

    @property
    def width(self) -> int:
        return self.size if isinstance(self.size, int) else self.size[1]

    @property
    def input_shape(self) -> Shape:
        return self.channels, self.height, self.width

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def key(self) -> str:
        return f"{self.name}-{self.channels}-{self.classes}-{self.height}x{self.width}-{self.weights or 'fresh'}"

    def build(self, seed: int = 0) -> nn.Module:
        """The network with its initial weights, in training mode.

        Raises:
            Misconfigured: it would have more weights than any network here.
        """
        self._check_weights()
        with seeded_globals(derive(seed, "initial weights", self.name)):
            return MODELS.get(self.name)(self)

    def _check_weights(self) -> None:
        """Count them before they are made: a plan or a record may ask for any number of classes and pixels."""
        if self.channels * self.height * self.width * self.classes <= _USUAL:
            return
        try:
            with torch.device("meta"), seeded_globals(0), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of pretrained numbers that a network without any does not take
                weights = sum(value.numel() for value in MODELS.get(self.name)(self).parameters())
        except RuntimeError:  # a builder that needs numbers, or sizes that overflow
            weights = MOST_WEIGHTS + 1
        if weights > MOST_WEIGHTS:
            raise Misconfigured(
                f"{self.name} for {self.channels} x {self.height} x {self.width} pixels and {self.classes} classes has "
                f"more than {MOST_WEIGHTS:,} weights, the most that is built here; make the images smaller."
            )


Builder = Callable[[Architecture], nn.Module]
MODELS: Registry[Builder] = Registry("models")

"""What a crafted neuron measures of an image: one number, by which images are told apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fluoroscope.errors import Misconfigured

Shape = tuple[int, int, int]
LATTICES = ((0, 0), (2, 2), (0, 2), (2, 0))
"""Rows and columns modulo 4: no pixel of one touches a pixel of another, so that neighbours can stand in for it."""
DRAWS = 24
"""Of the features, among which the auxiliary images choose."""


@dataclass(frozen=True, eq=False)
class Feature:
    """h(x) = (numerator . x) / (denominator . x); without a denominator, numerator . x.

    As a ratio, a threshold q is in the weights, numerator - q denominator, and the bias is 0: its update is not rounded
    away beside a value of its own.
    """

    numerator: Tensor
    """(pixels,)."""
    denominator: Tensor | None = None

    def __call__(self, images: Tensor) -> Tensor:
        pixels = images.flatten(1).double()
        above = pixels @ self.numerator.double()
        return above if self.denominator is None else above / (pixels @ self.denominator.double()).clamp_min(1e-9)

    @property
    def support(self) -> Tensor:
        """(pixels,), bool: where its neurons have weights."""
        return (self.numerator != 0) if self.denominator is None else (self.denominator != 0)


class Features(Protocol):
    """Which features the neurons of a front are divided among; the auxiliary images help to choose."""

    def __call__(self, shape: Shape, rng: torch.Generator, auxiliary: Tensor | None = None) -> Sequence[Feature]: ...


@dataclass(frozen=True)
class Brightness:
    """P2 section IV: every neuron measures the mean of all pixels."""

    def __call__(self, shape: Shape, rng: torch.Generator, auxiliary: Tensor | None = None) -> Sequence[Feature]:
        pixels = shape[0] * shape[1] * shape[2]
        return [Feature(torch.full((pixels,), 1 / pixels))]


@dataclass(frozen=True)
class SmoothContrasts:
    """Random smooth weights that sum to 0, on all pixels: for updates so large that no weight rounds them."""

    count: int = 3
    waves: int = 14
    """Random values along a side, drawn out to the image's size: fine enough to tell alike images apart."""

    def __call__(self, shape: Shape, rng: torch.Generator, auxiliary: Tensor | None = None) -> Sequence[Feature]:
        def draw() -> list[Feature]:
            found = []
            for _ in range(self.count):
                waves = _waves(shape, self.waves, rng)
                waves = waves - waves.mean()
                found.append(Feature((waves / waves.abs().sum()).flatten()))
            return found

        return _least_alike(draw, auxiliary)


@dataclass(frozen=True)
class SmoothProjections:
    """Random smooth weights against the plain mean, each feature on a lattice of pixels of its own.

    Images are smooth, so smooth weights spread them well, and one pixel in sixteen is enough to measure them. The
    others have weights of 0, so that their updates are exact in float32: they test every candidate.
    """

    count: int = 3
    waves: int = 4

    def __post_init__(self) -> None:
        if not 1 <= self.count <= len(LATTICES):
            raise Misconfigured(f"there is room for 1 to {len(LATTICES)} smooth projections, not {self.count}.")

    def __call__(self, shape: Shape, rng: torch.Generator, auxiliary: Tensor | None = None) -> Sequence[Feature]:
        def draw() -> list[Feature]:
            found = []
            for row, column in LATTICES[: self.count]:
                lattice = torch.zeros(shape)
                lattice[:, row::4, column::4] = 1
                waves = _waves(shape, self.waves, rng)
                weights = (1 + waves / waves.abs().amax()) / 2  # 0 to 1
                total = lattice.sum()
                found.append(Feature((weights * lattice / total).flatten(), (lattice / total).flatten()))
            return found

        return _least_alike(draw, auxiliary)


def _waves(shape: Shape, waves: int, rng: torch.Generator) -> Tensor:
    coarse = torch.randn((1, shape[0], waves, waves), generator=rng)
    drawn = torch.nn.functional.interpolate(coarse, size=shape[1:], mode="bicubic", align_corners=False)
    found: Tensor = drawn[0]
    return found


def _least_alike(draw: Callable[[], list[Feature]], auxiliary: Tensor | None) -> list[Feature]:
    """Of several draws the one whose features order the auxiliary images most differently.

    Two features that order images alike put the same images into one bin twice.
    """
    if auxiliary is None or len(auxiliary) < 3:
        return draw()
    best, least = draw(), 2.0
    for tried in (best, *(draw() for _ in range(DRAWS - 1))):
        ranks = torch.stack([feature(auxiliary).argsort().argsort().double() for feature in tried])
        alike = float((torch.corrcoef(ranks).abs() - torch.eye(len(tried))).max()) if len(tried) > 1 else 0.0
        if alike < least:
            best, least = tried, alike
    return best

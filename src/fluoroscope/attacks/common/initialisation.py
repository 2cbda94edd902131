"""Where an attack starts. Each gives images of the asked shape from a generator, and looks at nothing private."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fluoroscope.digest import digest
from fluoroscope.errors import Misconfigured
from fluoroscope.registry import Registry
from fluoroscope.threat_models.needs import require
from fluoroscope.types import Capability, Observation

Shape = tuple[int, ...]
"""Images, channels, height, width; of labels: images, classes."""


class Initialisation(Protocol):
    """The first guess."""

    @property
    def needs(self) -> frozenset[Capability]:
        """What an attacker has to know for it."""
        ...

    def __call__(self, observation: Observation, shape: Shape, rng: torch.Generator) -> Tensor: ...


class _NeedsNothing:
    """A start from chance."""

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset()


INITIALISATIONS: Registry[type[Initialisation]] = Registry("initialisations")


@INITIALISATIONS.register("normal")
@dataclass(frozen=True)
class Normal(_NeedsNothing):
    """N(0, 1) for every pixel, or about another mean."""

    mean: float = 0.0
    deviation: float = 1.0

    def __call__(self, observation: Observation, shape: Shape, rng: torch.Generator) -> Tensor:
        return self.mean + self.deviation * torch.randn(shape, generator=rng)


@INITIALISATIONS.register("unit")
@dataclass(frozen=True)
class Unit(_NeedsNothing):
    """U(0, 1) for every value, as it is drawn (P1's labels)."""

    def __call__(self, observation: Observation, shape: Shape, rng: torch.Generator) -> Tensor:
        return torch.rand(shape, generator=rng)


@INITIALISATIONS.register("uniform")
@dataclass(frozen=True)
class Uniform(_NeedsNothing):
    """U(0, 1) for every pixel, scaled to [0, 1] by each image's own extremes (P4's Unif)."""

    def __call__(self, observation: Observation, shape: Shape, rng: torch.Generator) -> Tensor:
        return stretched(torch.rand(shape, generator=rng))


@INITIALISATIONS.register("transformed-gaussian")
@dataclass(frozen=True)
class TransformedGaussian(_NeedsNothing):
    """P4 eq. 2 (TG): N(0, 1) scaled to [0, 1] by each image's own extremes."""

    def __call__(self, observation: Observation, shape: Shape, rng: torch.Generator) -> Tensor:
        return stretched(torch.randn(shape, generator=rng))


@INITIALISATIONS.register("prior")
@dataclass(frozen=True)
class PriorImage:
    """P1: a public image of the same kind, with smooth noise where several images must part ways."""

    noise: float = 0.1
    """Standard deviation, used for more than one image; one image starts at the prior itself."""

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset({Capability.PRIOR})

    def __call__(self, observation: Observation, shape: Shape, rng: torch.Generator) -> Tensor:
        require("a start from the prior", observation, {Capability.PRIOR})
        prior = observation.public_mean
        assert prior is not None
        start = prior.expand(shape).clone()
        if shape[0] == 1:
            return start
        return (start + self.noise * smooth_noise(shape, rng)).clamp(0, 1)


@INITIALISATIONS.register("given")
@dataclass(frozen=True, eq=False)
class Given(_NeedsNothing):
    """Images that the caller brings, such as an earlier attack's."""

    images: Tensor
    noise: float = 0.1
    """Standard deviation of what tells further restarts apart."""

    def __call__(self, observation: Observation, shape: Shape, rng: torch.Generator) -> Tensor:
        if tuple(self.images.shape) != shape:
            raise Misconfigured(f"the given start has shape {tuple(self.images.shape)}, the attack needs {shape}.")
        return self.images.clone()


@dataclass(frozen=True, eq=False)
class GivenEach(_NeedsNothing):
    """Images that the caller brings for each of several observations."""

    images: Mapping[str, Tensor]
    """By the digest of the update that was seen."""
    noise: float = 0.1
    """As Given's."""

    def __call__(self, observation: Observation, shape: Shape, rng: torch.Generator) -> Tensor:
        return Given(self.images[digest(observation.update)])(observation, shape, rng)


def smooth_noise(shape: Shape, rng: torch.Generator) -> Tensor:
    """(n, 1, height, width) bumps of about unit size, an eighth of the image wide."""
    coarse = torch.randn((shape[0], 1, 8, 8), generator=rng)
    return torch.nn.functional.interpolate(coarse, size=shape[2:], mode="bicubic", align_corners=False)


def stretched(values: Tensor) -> Tensor:
    """Each item scaled to [0, 1] by its own minimum and maximum (P4 eq. 2)."""
    flat = values.flatten(1)
    low, high = flat.amin(1, keepdim=True), flat.amax(1, keepdim=True)
    return ((flat - low) / (high - low).clamp_min(torch.finfo(values.dtype).tiny)).view_as(values)

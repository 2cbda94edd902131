"""Attacks whose worth is known: one that reads, one that only has the prior, one that gives up, one that refuses."""

from dataclasses import dataclass, field

import torch
from torch import nn

from fluoroscope.attacks.common.engine import Budget
from fluoroscope.errors import Unsupported
from fluoroscope.types import Capability, Reconstruction


class Dense(nn.Sequential):
    """The weights of its first layer give the image away: dL/dW_i = dL/db_i x."""

    def __init__(self, size: int = 28) -> None:
        super().__init__(nn.Flatten(), nn.Linear(size * size, 12), nn.Sigmoid(), nn.Linear(12, 2))


def images_like(observation, one) -> torch.Tensor:
    return one.expand(observation.training.images, *observation.network.input_shape).clone()


@dataclass(frozen=True)
class Reads:
    """dW_i / db_i of the first dense layer, of the unit whose bias moved most."""

    name: str = "reads"
    needs = frozenset({Capability.UPDATE})

    def run(self, observations, rng, on_iteration=None, checkpoint=None):
        return [Reconstruction(images_like(each, self._image(each)), None, 0.0) for each in observations]

    def _image(self, observation):
        weight, bias = (observation.update[name] for name in ("1.weight", "1.bias"))
        unit = bias.abs().argmax()
        return (weight[unit] / bias[unit]).nan_to_num(0.5).clamp(0, 1).view(observation.network.input_shape)


@dataclass(frozen=True)
class Prior:
    """What everybody has before any update."""

    name: str = "prior"
    needs = frozenset({Capability.PRIOR})

    def run(self, observations, rng, on_iteration=None, checkpoint=None):
        return [Reconstruction(images_like(each, each.public_mean), None, 0.0) for each in observations]


@dataclass(frozen=True)
class GivesUp:
    """Says that it found nothing."""

    name: str = "gives-up"
    needs = frozenset()

    def run(self, observations, rng, on_iteration=None, checkpoint=None):
        return [
            Reconstruction(images_like(each, each.public_mean), None, 0.0, nothing="the update is noise.")
            for each in observations
        ]


@dataclass(frozen=True)
class Refuses:
    """Applies to nothing; or fails."""

    how: type[Exception] = Unsupported
    needs = frozenset()

    def run(self, observations, rng, on_iteration=None, checkpoint=None):
        raise self.how("two steps are too many.")


@dataclass(frozen=True)
class Descends:
    """Reads only if it is given its iterations."""

    budget: Budget = field(default_factory=lambda: Budget(500))
    restarts: int = 2
    needs = frozenset({Capability.UPDATE})

    def run(self, observations, rng, on_iteration=None, checkpoint=None):
        return Prior().run(observations, rng) if self.budget.iterations < 500 else Reads().run(observations, rng)

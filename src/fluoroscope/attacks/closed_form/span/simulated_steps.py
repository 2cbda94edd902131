"""The steps of a round as the attacker simulates them, its images' batches known: each normalised by itself.

Where the weights stood at a step nobody but the client knows. They went from the global model to what was sent: each
step is taken at a point of that way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fluoroscope.attacks.closed_form.span.target import Target
from fluoroscope.attacks.common.batch_statistics import averaged, values_per_channel
from fluoroscope.attacks.common.measuring import measured
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.gradient_inversion.pullback import Statistics
from fluoroscope.models.modes import named_buffers
from fluoroscope.types import State

PLACES = 8
"""Parts of the way at whose ends a step may stand."""
KEPT = 8
"""Networks that are kept for the points of a round: of ResNet-18 45 MB each."""


@dataclass(frozen=True, eq=False)
class SimulatedSteps:
    """Batches of images, each at its own point of the round."""

    setup: Setup
    groups: tuple[Tensor, ...]
    """The numbers of each batch's images, batch by batch in the order of the steps."""
    points: tuple[float, ...]
    """How far of the way from the global model to what was sent each batch meets the weights."""
    told: int
    """So many of the images, the first ones, are asked for. The others only fill their batches."""
    statistics: dict[str, Statistics]
    """What the buffers say of all batches together; empty where they do not count."""

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.setup.network.input_shape

    def features(self, images: Tensor, layer: str) -> tuple[Tensor, Tensor]:
        """What the convolution `layer` is given for each told image, and how far the statistics are off."""
        batches = zip(self.groups, self.points, strict=True)
        passed = [self._pass(images[group], point, layer) for group, point in batches]
        order = torch.cat(self.groups).argsort()
        found = torch.cat([features for features, _ in passed])[order][: self.told]
        return found, self._off([seen for _, seen in passed])

    def measured(self, images: Tensor, layer: str) -> dict[str, Statistics]:
        """The statistics of all batches together, of the BatchNorm layers up to `layer`."""
        batches = zip(self.groups, self.points, strict=True)
        return self._together([self._pass(images[group], point, layer)[1] for group, point in batches])

    def placed(self, images: Tensor, target: Target) -> "SimulatedSteps":
        """The same with every batch where these images' features fit best, in that order; the first is at the start.

        Steps are not alike: the first may go nearly all of the way, after which a network is sure of the others.
        """
        costs = torch.zeros(len(self.groups), PLACES + 1)
        with torch.no_grad():
            for row, group in enumerate(self.groups):
                known = group < self.told
                part = Target(target.layer, target.maps[group[known]], target.scaled)
                for place in range(PLACES + 1):
                    features, _ = self._pass(images[group], place / PLACES, target.layer)
                    costs[row, place] = part.misfit(features[known]).square().sum()
        points = costs.argmin(1) / PLACES
        order = points.argsort(stable=True)
        first, *later = points[order].tolist()
        first = 0.0 if len(self.groups) == self.setup.training.steps else first
        return replace(self, groups=tuple(self.groups[row] for row in order.tolist()), points=(first, *later))

    @cached_property
    def _counts(self) -> dict[str, int]:
        return values_per_channel(self.setup.model, torch.zeros((len(self.groups[0]), *self.shape)))

    def _off(self, steps: Sequence[dict[str, Statistics]]) -> Tensor:
        together = self._together(steps) if self.statistics else {}
        gaps = [
            (ours - seen).norm() / seen.norm()
            for name, found in together.items()
            for ours, seen in zip(found, self.statistics[name], strict=True)
        ]
        return torch.stack(gaps).mean() if gaps else torch.zeros(())

    def _together(self, steps: Sequence[dict[str, Statistics]]) -> dict[str, Statistics]:
        """As the buffers weigh them."""
        sizes = [len(group) for group in self.groups]
        counts = {name: count for name, count in self._counts.items() if name in steps[0]}
        return averaged(steps, sizes, self.setup.training.batchnorm_momentum, counts)

    def _pass(self, images: Tensor, point: float, layer: str) -> tuple[Tensor, dict[str, Statistics]]:
        model, state = self.setup.model, self._weights(point)
        reached: list[Tensor] = []

        def stop(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            reached.append(inputs[0])
            raise _Reached

        handle = model.get_submodule(layer).register_forward_pre_hook(stop)
        try:
            with measured(model) as seen:
                functional_call(model, {**state, **named_buffers(model, state)}, (images,))
        except _Reached:
            pass
        finally:
            handle.remove()
        return reached[0], seen

    def _weights(self, point: float) -> State:
        """A descent asks for the same few again and again, and making them costs as much as a pass."""
        if point not in self._kept:
            if len(self._kept) == KEPT:
                del self._kept[next(iter(self._kept))]
            update = self.setup.update
            self._kept[point] = {n: v + point * update[n] if n in update else v for n, v in self.setup.state.items()}
        return self._kept[point]

    @cached_property
    def _kept(self) -> dict[float, State]:
        return {}


class _Reached(Exception):
    """The pass came to the layer: the rest of the network need not run."""


def evenly(steps: int) -> tuple[float, ...]:
    """The points of a round's steps, the first at the global model."""
    return tuple(step / steps for step in range(steps))

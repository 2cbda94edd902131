"""From decoded images to those that have the features: descent on the pixels, every step's batch normalised by itself.

Whether that helps is tried out on public images first: where the features say little of the pixels, the decoder's
guess, which is near the mean of all images with such features, is the better one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fluoroscope.attacks.closed_form.span.attack import SIZE
from fluoroscope.attacks.closed_form.span.pixels import FeatureObjective, Simulated, Weights
from fluoroscope.attacks.closed_form.span.simulated_steps import SimulatedSteps, evenly
from fluoroscope.attacks.closed_form.span.target import Target
from fluoroscope.attacks.common.engine import Budget, descend
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.common.pyramid import Pyramid
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.gradient_inversion.evidence import statistics

MISSED = 0.15
"""Relative misfit above which an image has other features than those that were found: its decoded one is kept."""


@dataclass(frozen=True)
class FeatureMatching:
    """Descent on the misfit of features, beside BatchNorm's statistics and the variation of the pixels."""

    weights: Weights = field(default_factory=lambda: Weights(statistics=2.0, variation=1.5, colour=1.0))
    """Those of pixels at a size of 64."""
    placings: int = 2
    """Descents of a quarter of the budget, beside it, between which several steps are placed on the round's way."""
    optimiser: Adam = field(default_factory=lambda: Adam(0.05))
    schedule: Schedule = field(default_factory=lambda: Schedule(warmup=10, decay="cosine"))

    def __call__(
        self, simulated: Simulated, target: Target, start: Tensor, budget: Budget, on_iteration: Callable[[], None]
    ) -> Tensor:
        """Images near `start` that have the target's features; where one has not, as it was."""
        images = start
        if isinstance(simulated, SimulatedSteps) and len(simulated.groups) > 1:
            shorter = replace(budget, iterations=math.ceil(budget.iterations / 4))
            for _ in range(self.placings):
                simulated = simulated.placed(images, target)
                images = self._descended(simulated, target, images, shorter, on_iteration)
            simulated = simulated.placed(images, target)
        images = self._descended(simulated, target, images, budget, on_iteration)
        missed = FeatureObjective(simulated, target, self.weights).misfits(images) > MISSED
        told = len(target.maps)
        return torch.where(missed[:, None, None, None], start[:told], images[:told])

    def rehearsed(
        self,
        simulated: SimulatedSteps,
        target: Target,
        start: Tensor,
        budget: Budget,
        on_iteration: Callable[[], None],
    ) -> Tensor:
        """The same for images that are known, whose steps' order is."""
        return self._descended(simulated, target, start, budget, on_iteration)

    def _descended(
        self, simulated: Simulated, target: Target, start: Tensor, budget: Budget, on_iteration: Callable[[], None]
    ) -> Tensor:
        wider = max(simulated.shape[1:]) / SIZE
        weights = replace(self.weights, variation=self.weights.variation * wider, colour=self.weights.colour * wider)
        objective = FeatureObjective(simulated, target, weights)
        if wider <= 1:
            found = descend(
                objective, start.flatten()[None], self.optimiser, self.schedule, budget, _in_range,
                lambda _: on_iteration(),
            )  # fmt: skip
            return found.best.view_as(start)
        pyramid, longer = Pyramid(start), replace(budget, iterations=math.ceil(wider * budget.iterations))
        found = descend(
            pyramid.over(objective), pyramid.origin, self.optimiser, self.schedule, longer, lambda x: x,
            lambda _: on_iteration(),
        )  # fmt: skip
        return pyramid.images(found.best[0])


def _in_range(pixels: Tensor) -> Tensor:
    return pixels.clamp(0, 1)


def simulated_steps(setup: Setup, groups: list[Tensor], told: int) -> SimulatedSteps | None:
    """The round of which each step's found images are known; images that were not found fill up their batches.

    None where more images are said to share a step than a batch has.
    """
    training = setup.training
    sizes = [training.batch_size] * (training.images // training.batch_size)
    sizes += [training.images % training.batch_size] * (training.images % training.batch_size > 0)
    groups = sorted(groups, key=len, reverse=True)  # a short last batch is the smallest one's
    if any(len(group) > size for group, size in zip(groups, sizes, strict=False)):
        return None
    filled, images = [], told
    for group, size in zip(groups, sizes, strict=False):
        spare = size - len(group)
        filled.append(torch.cat([group, torch.arange(images, images + spare)]))
        images += spare
    middle = (training.steps - 1) / (2 * training.steps)
    seen = statistics(setup, alone=False) if len(groups) == training.steps else {}
    return SimulatedSteps(setup, tuple(filled), (middle,) * len(filled), told, seen)


def rehearsal(setup: Setup, images: Tensor, layer: str) -> tuple[SimulatedSteps, Target]:
    """A round of known images, and what its update would show: half a step away from where it is simulated."""
    training = setup.training
    batches = torch.split(torch.arange(len(images)), min(training.batch_size, len(images)))
    steps = tuple(batches)
    points = evenly(training.steps)[: len(steps)]
    true = SimulatedSteps(setup, steps, points, len(images), {})
    with torch.no_grad():
        features, _ = true.features(images, layer)
        seen = true.measured(images, layer)
    off = 0.5 / training.steps if training.steps > 1 else 0.0
    guessed = replace(true, points=tuple(point + off for point in points), statistics=seen)
    return guessed, Target(layer, features, scaled=False)

"""The client's one step as an attacker simulates it: value and exact gradient of an objective in images and labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from fluoroscope.attacks.common.batch_statistics import mismatch
from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.gradient_inversion.distances import Cosine, Distance, OfSquares
from fluoroscope.attacks.gradient_inversion.evidence import direction, statistics
from fluoroscope.attacks.gradient_inversion.pullback import (
    Pullback,
    Statistics,
    StatisticsPullback,
    Tape,
    pullback_for,
)
from fluoroscope.attacks.gradient_inversion.regularisers import Regulariser
from fluoroscope.errors import Misconfigured
from fluoroscope.types import Capability, Observation


@dataclass(frozen=True)
class Objective:
    """What an attack minimises: distance of the gradients, mismatch of the BatchNorm statistics, regularisers."""

    distance: Distance | None = None
    distance_weight: float = 1.0
    batchnorm_weight: float = 0.0
    """Of P1 eq. 5's sum over all layers, once for every image, as regularisers count."""
    regularisers: tuple[Regulariser, ...] = field(default=())
    steps: Literal["unrolled", "interpolated", "surrogate", "merged"] = "unrolled"
    """A round that is not one step of SGD: step by step, each between the two states, or all images as one step: at
    `points` between the two states, or at the first."""
    points: tuple[float, ...] = (0.5,)
    """Of `surrogate`: shares of the way from the state before the round to that after it."""

    def __post_init__(self) -> None:
        if not self.points or not all(0 <= point <= 1 for point in self.points):
            raise Misconfigured(f"points are shares of the way from 0 to 1, at least one, not {self.points}.")

    @property
    def compares_both(self) -> bool:
        return self.distance is not None and self.batchnorm_weight > 0

    @property
    def needs(self) -> frozenset[Capability]:
        known = set(SIMULATION)
        known |= {Capability.UPDATE} if self.distance else set()
        # Statistics that were withheld (FedBN) leave the other term; alone, there would be nothing.
        known |= {Capability.BUFFERS} if self.batchnorm_weight and not self.distance else set()
        return frozenset(known)


class OneStep:
    """One observation of one SGD step, with what of it the objective compares.

    Of any other round it is an approximation, P1's: all images are one batch, whose gradient is compared with the mean
    direction of the steps, and whose statistics with the one estimate that the buffers give.
    """

    def __init__(self, observation: Observation, objective: Objective) -> None:
        self.objective = objective
        self.setup = Setup.of(observation, objective.needs, "this objective")
        self.state, self.loss = self.setup.state, self.setup.training.loss
        self.seen = direction(self.setup) if objective.distance else {}
        self.statistics: dict[str, Statistics] = {}
        if objective.batchnorm_weight:
            self.statistics = statistics(self.setup, alone=objective.distance is None)

    # Made when they are needed: side by side, one client's serves for all.
    @cached_property
    def _whole(self) -> Pullback[Tape]:
        return pullback_for(self.setup.model, self.loss)

    @cached_property
    def _only_statistics(self) -> StatisticsPullback:
        return StatisticsPullback(self.setup.model)

    def evaluate(self, images: Tensor, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The objective, and its gradients with respect to the images and to the logits of the soft labels."""
        if self.objective.distance is None:
            value, pulled, label_gradient = self._statistics_alone(images, logits)
        else:
            value, pulled, label_gradient = self._step(images, logits)
        leaf = images.detach().requires_grad_()
        with torch.enable_grad():
            penalties = [regulariser(leaf) for regulariser in self.objective.regularisers]
            penalty = torch.stack(penalties).sum() if penalties else leaf.sum() * 0
        (direct,) = torch.autograd.grad(penalty, leaf)
        return value + penalty.detach(), pulled + direct, label_gradient

    def _step(self, images: Tensor, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        labels = self.loss.soft(logits)
        tape = self._whole.forward(self.state, images, labels)
        gap, cotangents = self._gap({name: tape.gradients[name].detach() for name in self.seen})
        value, statistics = self._mismatch(tape.statistics)
        pulled, to_labels = self._whole.backward(tape, cotangents, statistics)
        return gap + value, pulled, self.loss.pulled(labels, to_labels)

    def _gap(self, simulated: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """The weighed distance, and its derivative by what was simulated."""
        distance, weight = self.objective.distance, self.objective.distance_weight
        if isinstance(distance, OfSquares):  # in a third of autograd's time: these are as many numbers as weights
            gaps = {name: value - self.seen[name] for name, value in simulated.items()}
            squares = torch.stack([torch.linalg.vector_norm(gap) for gap in gaps.values()]).square()
            value, slopes = distance.sloped(weight, squares, self._units)
            return value, {name: gap.mul_(2 * slope) for (name, gap), slope in zip(gaps.items(), slopes, strict=True)}
        if isinstance(distance, Cosine):
            value, found = distance.pulled(list(simulated.values()), list(self.seen.values()))
            return weight * value, {name: each.mul_(weight) for name, each in zip(simulated, found, strict=True)}
        assert distance is not None
        leaves = {name: value.requires_grad_() for name, value in simulated.items()}
        with torch.enable_grad():
            value = weight * distance(list(leaves.values()), list(self.seen.values()))
        gradients = torch.autograd.grad(value, list(leaves.values()))
        return value.detach(), dict(zip(leaves, gradients, strict=True))

    @cached_property
    def _units(self) -> Tensor:
        assert isinstance(self.objective.distance, OfSquares)
        return self.objective.distance.units(list(self.seen.values()))

    def _statistics_alone(self, images: Tensor, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if not self.statistics:
            return images.new_zeros(()), torch.zeros_like(images), torch.zeros_like(logits)
        tape = self._only_statistics.forward(self.state, images)
        value, statistics = self._mismatch(tape.statistics)
        return value, self._only_statistics.backward(tape, statistics), torch.zeros_like(logits)

    def _mismatch(self, simulated: dict[str, Statistics]) -> tuple[Tensor, dict[str, Statistics]]:
        if not self.statistics:
            return torch.zeros(()), {}
        leaves = {name: Statistics(*(v.detach().requires_grad_() for v in simulated[name])) for name in self.statistics}
        with torch.enable_grad():
            value = self.setup.shape[0] * self.objective.batchnorm_weight * mismatch(leaves, self.statistics)
        flat = [leaf for pair in leaves.values() for leaf in pair]
        found = torch.autograd.grad(value, flat)
        pairs = {name: Statistics(found[2 * i], found[2 * i + 1]) for i, name in enumerate(leaves)}
        return value.detach(), pairs

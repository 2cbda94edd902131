"""A round of several steps with every step at weights that the attacker knows: between the first and the last.

Unrolled, a wrong guess at the first images puts every later step at wrong weights, and the objective is rugged far
from the truth. The weights before and after the round are both known, so step t of T is taken at
w_0 + (t-1)/T (w_T - w_0) instead: exact for one step, wrong by the bend of the path for more, and smooth.

Nobody knows which images a step took. A surrogate does not ask: all images together, at one point or a few of the way
between the two states, whose gradient is compared with the round's mean direction (Zhu, Yao and Blaschko 2023).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fluoroscope.attacks.common.batch_statistics import averaged, mismatch, values_per_channel
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.gradient_inversion.evidence import direction, statistics
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.attacks.gradient_inversion.pullback import Statistics, StatisticsPullback, pullback_for
from fluoroscope.attacks.gradient_inversion.row_layout import ObjectiveAndGradients
from fluoroscope.federation.local_training import guessed_schedule
from fluoroscope.types import Capability, Observation


class Interpolated:
    """One observation of a round of several steps. The mean gradient stands for the optimiser's mean direction.

    The order of the images is guessed as `Unrolled` guesses it; a surrogate has none. A step costs what one costs
    `OneStep`: 2.5 training steps, or 0.8 for the statistics alone.
    """

    def __init__(self, observation: Observation, objective: Objective) -> None:
        self.objective = objective
        self.setup = Setup.of(observation, objective.needs | {Capability.UPDATE}, "a round between two states")
        self.training, update = self.setup.training, self.setup.update
        if objective.steps == "surrogate":
            points, self._parts = objective.points, [torch.arange(self.training.images)] * len(objective.points)
        else:
            self._parts = guessed_schedule(self.training)
            points = tuple(t / self.training.steps for t in range(self.training.steps))
        self.states = [
            {n: value + point * update[n] if n in update else value for n, value in self.setup.state.items()}
            for point in points
        ]
        self.seen = direction(self.setup) if objective.distance else {}
        self.statistics: dict[str, Statistics] = {}
        if objective.batchnorm_weight:
            self.statistics = statistics(self.setup, alone=objective.distance is None)
        first = (len(self._parts[0]), *self.setup.network.input_shape)
        self._counts = values_per_channel(self.setup.model, torch.zeros(first))
        self._whole = pullback_for(self.setup.model, self.training.loss)
        self._only_statistics = StatisticsPullback(self.setup.model)

    def evaluate(self, images: Tensor, logits: Tensor) -> ObjectiveAndGradients:
        """The objective, and its gradients with respect to the images and to the logits of the soft labels."""
        leaf, soft = images.detach().requires_grad_(), logits.detach().requires_grad_()
        with torch.enable_grad():
            labels = self.training.loss.soft(soft)
            penalty = torch.stack(
                [leaf.sum() * 0, *(regulariser(leaf) for regulariser in self.objective.regularisers)]
            ).sum()
        (to_images,) = torch.autograd.grad(penalty, leaf)
        parts = self._parts
        value, pulled = self._steps([images[part] for part in parts], [labels.detach()[part] for part in parts])
        to_images, to_labels = to_images.clone(), torch.zeros_like(logits)
        for part, (to_x, to_y) in zip(parts, pulled, strict=True):
            to_images[part] += to_x
            to_labels[part] += to_y
        (to_logits,) = torch.autograd.grad(labels, soft, to_labels)
        return penalty.detach() + value, to_images, to_logits

    def _steps(self, images: Sequence[Tensor], labels: Sequence[Tensor]) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """The value of what is compared, and each step's derivative with respect to its images and labels."""
        sizes, rounds = [len(x) for x in images], list(zip(self.states, images, labels, strict=True))
        if self.objective.distance is None:
            tapes = [self._only_statistics.forward(state, x) for state, x, _ in rounds]
            value, _, cotangents = self._compared([], [tape.statistics for tape in tapes], sizes)
            found = [self._only_statistics.backward(t, c) for t, c in zip(tapes, cotangents, strict=True)]
            return value, [(x, torch.zeros_like(y)) for x, y in zip(found, labels, strict=True)]
        full = [self._whole.forward(*step) for step in rounds]
        gradients = [torch.stack([tape.gradients[name] for tape in full]).mean(0) for name in self.seen]
        value, to_gradients, cotangents = self._compared(gradients, [tape.statistics for tape in full], sizes)
        shares = {name: g / len(full) for name, g in zip(self.seen, to_gradients, strict=True)}
        return value, [self._whole.backward(t, shares, c) for t, c in zip(full, cotangents, strict=True)]

    def _compared(
        self, gradients: Sequence[Tensor], steps: Sequence[dict[str, Statistics]], sizes: Sequence[int]
    ) -> tuple[Tensor, list[Tensor], list[dict[str, Statistics]]]:
        """The value, and its derivatives with respect to the mean gradient and to the statistics of every step."""
        leaves = [gradient.detach().requires_grad_() for gradient in gradients]
        live = [{k: Statistics(*(v.detach().requires_grad_() for v in s[k])) for k in self.statistics} for s in steps]
        flat = [leaf for step in live for pair in step.values() for leaf in pair]
        with torch.enable_grad():
            terms = [torch.zeros(())]
            if self.objective.distance is not None:
                terms.append(self.objective.distance_weight * self.objective.distance(leaves, list(self.seen.values())))
            if self.statistics:
                ours = averaged(live, sizes, self.training.batchnorm_momentum, self._counts)
                terms.append(self.setup.shape[0] * self.objective.batchnorm_weight * mismatch(ours, self.statistics))
            value = torch.stack(terms).sum()
        found = list(torch.autograd.grad(value, [*leaves, *flat]))
        back = iter(found[len(leaves) :])
        return value.detach(), found[: len(leaves)], [{k: Statistics(next(back), next(back)) for k in s} for s in live]

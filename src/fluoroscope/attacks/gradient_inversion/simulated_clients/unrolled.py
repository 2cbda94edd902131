"""The client's whole round as an attacker simulates it: autograd through every step of its own training code."""

from collections.abc import Iterator

import torch
from torch import Tensor

from fluoroscope.attacks.common.batch_statistics import averaged, mismatch, values_per_channel
from fluoroscope.attacks.common.measuring import measured
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.gradient_inversion.evidence import direction, statistics
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.attacks.gradient_inversion.pullback.contract import Statistics
from fluoroscope.attacks.gradient_inversion.row_layout import ObjectiveAndGradients
from fluoroscope.federation.local_training import MiniBatch, guessed_schedule, train_on
from fluoroscope.types import Observation


class Unrolled:
    """One observation of any round: several steps or epochs, any optimiser, with a proximal term or without.

    The attacker does not know in which order the client took its images. In the first epoch any order is as good, since
    the order of a guess means nothing: its batches are consecutive images. For later epochs it guesses the same order
    again. Nor does it know dropout's masks: it draws its own, the same at every evaluation.
    An evaluation costs about four training steps for each of the client's.
    """

    def __init__(self, observation: Observation, objective: Objective) -> None:
        self.objective = objective
        self.setup = Setup.of(observation, objective.needs, "this objective")
        self.training, self.state = self.setup.training, self.setup.state
        self.seen = direction(self.setup) if objective.distance else {}
        self.statistics: dict[str, Statistics] = {}
        if objective.batchnorm_weight:
            self.statistics = statistics(self.setup, alone=objective.distance is None)
        self._counts = values_per_channel(self.setup.model, torch.zeros(self.setup.batch_shape))
        self._parts = guessed_schedule(self.training)

    def evaluate(self, images: Tensor, logits: Tensor) -> ObjectiveAndGradients:
        """The objective, and its gradients with respect to the images and to the logits of the soft labels."""
        objective = self.objective
        with torch.enable_grad():
            images, logits = images.detach().requires_grad_(), logits.detach().requires_grad_()
            state, steps = self._trained(images, self.training.loss.soft(logits))
            terms = [images.sum() * 0, *(regulariser(images) for regulariser in objective.regularisers)]
            if objective.distance is not None:
                over = -self.training.optimiser.lr * self.training.steps
                simulated = [(state[name] - self.state[name]) / over for name in self.seen]
                terms.append(objective.distance_weight * objective.distance(simulated, list(self.seen.values())))
            if self.statistics:
                ours = averaged(
                    steps, [len(part) for part in self._parts], self.training.batchnorm_momentum, self._counts
                )
                terms.append(len(images) * objective.batchnorm_weight * mismatch(ours, self.statistics))
            value = torch.stack(terms).sum()
        to_images, to_logits = torch.autograd.grad(value, (images, logits), materialize_grads=True)
        return value.detach(), to_images, to_logits

    def _trained(self, images: Tensor, labels: Tensor) -> tuple[dict[str, Tensor], list[dict[str, Statistics]]]:
        """The state after the round and the statistics of its steps, both as graphs."""
        steps: list[dict[str, Statistics]] = []

        def watched(found: dict[str, Statistics]) -> Iterator[MiniBatch]:
            for part in self._parts:
                yield images[part], labels[part]
                steps.append(dict(found))
                found.clear()

        with measured(self.setup.model) as found:  # the copy that is trained has the hooks too
            rng = torch.Generator().manual_seed(0)
            trained = train_on(self.setup.model, self.state, watched(found), self.training, rng, create_graph=True)
        return trained.state, steps

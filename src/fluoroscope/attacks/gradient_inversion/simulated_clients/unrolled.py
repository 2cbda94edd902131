"""The client's whole round as an attacker simulates it: autograd through every step of its own training code."""

from collections.abc import Iterator

import torch
from torch import Tensor

from fluoroscope.attacks.common.batch_statistics import averaged, mismatch, values_per_channel
from fluoroscope.attacks.common.measuring import measured
from fluoroscope.attacks.gradient_inversion.evidence import batch_shape, direction, statistics
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.attacks.gradient_inversion.pullback.contract import Statistics
from fluoroscope.attacks.gradient_inversion.row_layout import ObjectiveAndGradients
from fluoroscope.federation.local_training import MiniBatch, client_mode, train_on
from fluoroscope.models import build
from fluoroscope.threat_models.needs import require
from fluoroscope.types import Observation


class Unrolled:
    """One observation of any round: several steps or epochs, Sgd or Adam, with a proximal term or without.

    The attacker does not know in which order the client took its images. In the first epoch any order is as good, since
    the order of a guess means nothing: its batches are consecutive images. For later epochs it guesses the same order
    again. Nor does it know dropout's masks: it draws its own, the same at every evaluation.
    An evaluation costs about four training steps for each of the client's.
    """

    def __init__(self, observation: Observation, objective: Objective) -> None:
        require("this objective", observation, objective.needs)
        architecture, training = observation.architecture, observation.training
        assert architecture is not None
        assert training is not None
        self.objective = objective
        self.training = training
        self.shape = (training.images, architecture.channels, architecture.size, architecture.size)
        self.classes = architecture.classes
        self.model = client_mode(build(architecture), training)
        self.state = {**(observation.state_before or {}), **(observation.buffers_before or {})}
        self.seen = direction(observation, self.model) if objective.distance else {}
        self.statistics: dict[str, Statistics] = {}
        if objective.batchnorm_weight:
            self.statistics = statistics(observation, self.model, alone=objective.distance is None)
        self._counts = values_per_channel(self.model, torch.zeros(batch_shape(observation)))

    def evaluate(self, images: Tensor, logits: Tensor) -> ObjectiveAndGradients:
        """The objective, and its gradients with respect to the images and to the logits of the soft labels."""
        objective = self.objective
        with torch.enable_grad():
            images, logits = images.detach().requires_grad_(), logits.detach().requires_grad_()
            state, steps = self._trained(images, logits.softmax(1))
            terms = [images.sum() * 0, *(regulariser(images) for regulariser in objective.regularisers)]
            if objective.distance is not None:
                over = -self.training.optimiser.lr * self.training.steps
                simulated = [(state[name] - self.state[name]) / over for name in self.seen]
                terms.append(objective.distance_weight * objective.distance(simulated, list(self.seen.values())))
            if self.statistics:
                sizes = [len(batch) for batch in torch.split(images, self.training.batch_size)] * self.training.epochs
                ours = averaged(steps, sizes, self.training.batchnorm_momentum, self._counts)
                terms.append(len(images) * objective.batchnorm_weight * mismatch(ours, self.statistics))
            value = torch.stack(terms).sum()
        to_images, to_logits = torch.autograd.grad(value, (images, logits), materialize_grads=True)
        return value.detach(), to_images, to_logits

    def _trained(self, images: Tensor, labels: Tensor) -> tuple[dict[str, Tensor], list[dict[str, Statistics]]]:
        """The state after the round and the statistics of its steps, both as graphs."""
        size, steps = self.training.batch_size, list[dict[str, Statistics]]()
        batches = list(zip(torch.split(images, size), torch.split(labels, size), strict=True)) * self.training.epochs

        def watched(found: dict[str, Statistics]) -> Iterator[MiniBatch]:
            for batch in batches:
                yield batch
                steps.append(dict(found))
                found.clear()

        with measured(self.model) as found:  # the copy that is trained has the hooks too
            rng = torch.Generator().manual_seed(0)
            trained = train_on(self.model, self.state, watched(found), self.training, rng, create_graph=True)
        return trained.state, steps

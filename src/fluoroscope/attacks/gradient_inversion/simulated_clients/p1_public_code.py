"""What the public code of P1 optimises, which is not P1's objective: kept as a baseline, so that the gap is measured.

Modelled: its gradient term comes from detached tensors, so it has no derivative and moves nothing; the simulated
training's own backward pass leaves the derivative of the task loss in the images and labels; the statistics are read
off the buffers as if there had been one step, without the (n-1)/n that the running variance asks for, and compared
with those of all images as one batch at the *updated* weights; total variation and norm in its own form and weights;
Adam with both betas .9, a warm-up, pixels without a box.
Not modelled: its "global" network, which takes a step at every iteration and drifts away; its energy noise, which it
discards; its sigmoid and binary cross-entropy (the client's loss stands here); a grey image's three equal channels,
which an architecture of one channel does not have; its 40000 iterations.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.func import functional_call

from fluoroscope.attacks.common.batch_statistics import mismatch
from fluoroscope.attacks.common.measuring import measured
from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.gradient_inversion.evidence import gives_statistics
from fluoroscope.attacks.gradient_inversion.pullback.contract import Statistics
from fluoroscope.attacks.gradient_inversion.regularisers import Regulariser
from fluoroscope.attacks.gradient_inversion.row_layout import ObjectiveAndGradients
from fluoroscope.errors import Unsupported
from fluoroscope.models.modes import named_buffers
from fluoroscope.types import Capability, Observation


@dataclass(frozen=True)
class DiagonalVariation:
    """The norms of the differences of neighbours: across, down and along both diagonals."""

    weight: float

    def __call__(self, images: Tensor) -> Tensor:
        ahead, behind, up, down = images[..., 1:], images[..., :-1], images[..., :-1, :], images[..., 1:, :]
        gaps = (ahead - behind, down - up, down[..., :-1] - up[..., 1:], down[..., 1:] - up[..., :-1])
        return self.weight * torch.stack([gap.norm() for gap in gaps]).sum()


@dataclass(frozen=True)
class MeanNorm:
    """The mean of the images' norms, not squared."""

    weight: float

    def __call__(self, images: Tensor) -> Tensor:
        norms: Tensor = torch.linalg.vector_norm(images.flatten(1), dim=1)
        return self.weight * norms.mean()


@dataclass(frozen=True)
class P1PublicCode:
    """With the weights of the configuration that was published with it."""

    batchnorm_weight: float = 0.1
    regularisers: tuple[Regulariser, ...] = field(default=(DiagonalVariation(1e-4), MeanNorm(1e-5)))

    @property
    def needs(self) -> frozenset[Capability]:
        return SIMULATION | {Capability.UPDATE, Capability.BUFFERS}


class P1PublicCodeClient:
    """One observation as the public code looks at it."""

    def __init__(self, observation: Observation, objective: P1PublicCode) -> None:
        self.objective = objective
        self.setup = Setup.of(observation, objective.needs, "p1-reference")
        training, self._loss = self.setup.training, self.setup.training.loss
        before, after = observation.buffers_before or {}, observation.buffers_after or {}
        weights, update = observation.state_before or {}, observation.update or {}
        self.state = self.setup.state
        self.updated = {**{name: weights[name] + change for name, change in update.items()}, **after}
        momentum = training.batchnorm_momentum
        layers = [name.removesuffix(".running_mean") for name in before if name.endswith(".running_mean")]
        if not gives_statistics(observation):
            raise Unsupported(
                "P1's public code compares BatchNorm statistics, and a client that trains "
                f"{self.setup.network.name} with BatchNorm in mode {training.batchnorm!r} gives none away: choose an "
                "attack on the update, such as inverting-gradients."
            )

        def demixed(name: str) -> Tensor:  # P1 eqs 3 and 4, solved for the batch as if there had been one
            return (after[name] - (1 - momentum) * before[name]) / momentum

        self.statistics = {
            layer: Statistics(demixed(f"{layer}.running_mean"), demixed(f"{layer}.running_var")) for layer in layers
        }

    def evaluate(self, images: Tensor, logits: Tensor) -> ObjectiveAndGradients:
        """What the code's gradient is the gradient of."""
        with torch.enable_grad():
            images, logits = images.detach().requires_grad_(), logits.detach().requires_grad_()
            predicted = self._run(self.state, images)
            with measured(self.setup.model) as found:
                self._run(self.updated, images)
            terms = [self._loss(predicted, self._loss.soft(logits))]
            terms += [self.objective.batchnorm_weight * mismatch(found, self.statistics)]
            terms += [regulariser(images) for regulariser in self.objective.regularisers]
            value = torch.stack(terms).sum()
        to_images, to_logits = torch.autograd.grad(value, (images, logits))
        return value.detach(), to_images, to_logits

    def _run(self, state: dict[str, Tensor], images: Tensor) -> Tensor:
        buffers = named_buffers(self.setup.model, state)  # training mode moves them
        predicted = functional_call(self.setup.model, state | buffers, (images,))
        assert isinstance(predicted, Tensor)
        return predicted

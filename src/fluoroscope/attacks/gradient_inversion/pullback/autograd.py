"""The pullback by autograd's double backward: any module, and the oracle for the fast one."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fluoroscope.attacks.common.measuring import measured
from fluoroscope.attacks.gradient_inversion.pullback.contract import Statistics, Tape
from fluoroscope.models.modes import named_buffers
from fluoroscope.rng import seeded_globals
from fluoroscope.types import CrossEntropy, Loss, State


@dataclass(frozen=True, eq=False)
class AutogradTape(Tape):
    """With autograd's graph, from the images and labels to what is detached in the other fields."""

    inputs: tuple[Tensor, Tensor]
    live_gradients: dict[str, Tensor]
    live_statistics: dict[str, Statistics]


class AutogradPullback:
    """Costs 2.7 to 4.7 training steps."""

    def __init__(self, model: nn.Module, loss: Loss | None = None) -> None:
        """`model` gives the architecture in the client's mode; it is copied, so what becomes of it does not matter."""
        self._model, self._loss = copy.deepcopy(model), loss or CrossEntropy()

    def forward(self, state: State, images: Tensor, labels: Tensor) -> AutogradTape:
        """A training step without its update, with a graph of its gradient."""
        with torch.enable_grad():
            images, labels = images.detach().requires_grad_(), labels.detach().requires_grad_()
            parameters = {name: state[name].detach().requires_grad_() for name, _ in self._model.named_parameters()}
            buffers = named_buffers(self._model, state)
            # Dropout draws from the global generator: the same mask every time, or the objective would jump about.
            with measured(self._model) as statistics, seeded_globals(0):
                logits = functional_call(self._model, parameters | buffers, (images,))
            loss = self._loss(logits, labels)
            found = torch.autograd.grad(loss, list(parameters.values()), create_graph=True, materialize_grads=True)
        gradients = dict(zip(parameters, found, strict=True))
        return AutogradTape(
            loss.detach(),
            {name: gradient.detach() for name, gradient in gradients.items()},
            {name: Statistics(mean.detach(), var.detach()) for name, (mean, var) in statistics.items()},
            (images, labels),
            gradients,
            statistics,
        )

    def backward(
        self, tape: AutogradTape, gradients: Mapping[str, Tensor], statistics: Mapping[str, Statistics]
    ) -> tuple[Tensor, Tensor]:
        """The second backward pass."""
        outputs = [tape.live_gradients[name] for name in gradients]
        outputs += [value for name in statistics for value in tape.live_statistics[name]]
        cotangents = [value.detach() for value in gradients.values()]
        cotangents += [value.detach() for pair in statistics.values() for value in pair]
        live = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if o.requires_grad]
        if not live:
            return torch.zeros_like(tape.inputs[0]), torch.zeros_like(tape.inputs[1])
        images, labels = torch.autograd.grad(
            [o for o, _ in live], tape.inputs, [c for _, c in live], retain_graph=True, materialize_grads=True
        )
        return images, labels

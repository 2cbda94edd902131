"""Many observations of one step as one computation, where the model lets `vmap` do it."""

from collections.abc import Iterable
from typing import TypeGuard

import torch
from torch import Tensor
from torch.func import functional_call, grad, grad_and_value, vmap
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from fluoroscope.attacks.gradient_inversion.objective import OneStep
from fluoroscope.attacks.gradient_inversion.row_layout import Client, ObjectiveAndGradients
from fluoroscope.attacks.gradient_inversion.simulated_clients.stacked import StackedClients, bytes_per_row, in_chunks
from fluoroscope.types import State

CACHE = 32 * 2**20
"""Bytes that stay near the processor."""
FEW = 8
"""Rows at once that are worth more than the cache: a call costs the same for one."""


def can_vectorise(client: object) -> TypeGuard[OneStep]:
    """One step that compares gradients, on a network in which no layer mixes images or draws at random.

    BatchNorm in training mode changes its buffers in place, and dropout would draw the same mask for all.
    """
    if not isinstance(client, OneStep) or client.objective.distance is None or client.objective.batchnorm_weight:
        return False
    unfit = (_BatchNorm, _DropoutNd)
    return not any(isinstance(layer, unfit) and layer.training for layer in client.setup.model.modules())


class Vectorised:
    """Clients of one architecture and shape, by autograd's double backward."""

    def __init__(self, first: OneStep, others: Iterable[Client], owner: Tensor, memory: int) -> None:
        """Row i is a guess at the images of client `owner[i]`; `memory` in bytes bounds the rows evaluated at once."""
        self._model, self._objective, self._names = first.setup.model, first.objective, list(first.seen)
        self._loss, self._owner, self._clients = first.loss, owner, StackedClients(first, others)
        row = bytes_per_row(first)
        self.at_once = max(1, min(memory // row, max(FEW, CACHE // row)))
        in_dims = (None if self._clients.shared else 0, 0, 0, 0)
        self._many = vmap(grad_and_value(self._value, argnums=(2, 3)), in_dims=in_dims)

    def __call__(self, images: Tensor, logits: Tensor, rows: Tensor) -> ObjectiveAndGradients:
        """In as many chunks as memory asks for."""
        return in_chunks(self._chunk, self.at_once)(images, logits, rows)

    def _chunk(self, images: Tensor, logits: Tensor, rows: Tensor) -> ObjectiveAndGradients:
        owner = self._owner[rows]
        state, seen = self._clients.state_of(owner), self._clients.seen_of(owner)
        (to_images, to_logits), values = self._many(state, seen, images, logits)
        return values, to_images, to_logits

    def _value(self, state: State, seen: State, images: Tensor, logits: Tensor) -> Tensor:
        """One problem's objective, as OneStep.evaluate has it."""
        parameters = {name: state[name] for name in self._names}
        rest = {name: value for name, value in state.items() if name not in parameters}

        def loss(parameters: dict[str, Tensor]) -> Tensor:
            outputs = functional_call(self._model, parameters | rest, (images,))
            return self._loss(outputs, self._loss.soft(logits))

        simulated = grad(loss)(parameters)
        assert self._objective.distance is not None
        gap = self._objective.distance([simulated[n] for n in self._names], [seen[n] for n in self._names])
        penalties = [regulariser(images) for regulariser in self._objective.regularisers]
        return torch.stack([self._objective.distance_weight * gap, *penalties]).sum()

"""Many observations of one step as one computation, where the model lets `vmap` do it."""

from collections.abc import Iterable, Sequence
from typing import TypeGuard

import torch
from torch import Tensor
from torch.func import functional_call, grad, grad_and_value, vmap
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from fluoroscope.attacks.gradient_inversion.objective import OneStep
from fluoroscope.attacks.gradient_inversion.row_layout import Client, ObjectiveAndGradients
from fluoroscope.types import State

CACHE = 32 * 2**20
"""Bytes that stay near the processor: LeNet-5's gradients of 100 images do not, and take half as long again."""
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
    """Clients of one architecture and shape. Weights that all of them start from are held once."""

    def __init__(self, first: OneStep, others: Iterable[Client], owner: Tensor, memory: int) -> None:
        """Row i is a guess at the images of client `owner[i]`; `memory` in bytes bounds the rows evaluated at once."""
        self._model, self._objective, self._names = first.setup.model, first.objective, list(first.seen)
        self._loss = first.loss
        self._owner = owner
        states, seen = [first.state], [first.seen]
        for client in others:  # of the others only this is kept: their networks are the first one's
            assert isinstance(client, OneStep)
            states.append(client.state)
            seen.append(client.seen)
        self._shared = all(_same(state, first.state) for state in states[1:])
        self._state = dict(first.state) if self._shared else _stacked(states)
        self._seen = _stacked(seen)
        row = _bytes_per_row(first)
        self.at_once = max(1, min(memory // row, max(FEW, CACHE // row)))
        self._many = vmap(grad_and_value(self._value, argnums=(2, 3)), in_dims=(None if self._shared else 0, 0, 0, 0))

    def __call__(self, images: Tensor, logits: Tensor, rows: Tensor) -> ObjectiveAndGradients:
        """In as many chunks as memory asks for."""
        parts = (torch.split(part, self.at_once) for part in (images, logits, rows))
        found = [self._chunk(*chunk) for chunk in zip(*parts, strict=True)]
        values, to_images, to_logits = (torch.cat(parts) for parts in zip(*found, strict=True))
        return values, to_images, to_logits

    def _chunk(self, images: Tensor, logits: Tensor, rows: Tensor) -> ObjectiveAndGradients:
        owner = self._owner[rows]
        state = self._state if self._shared else _of(self._state, owner)
        (to_images, to_logits), values = self._many(state, _of(self._seen, owner), images, logits)
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


def _same(a: State, b: State) -> bool:
    return all(a[name] is value or torch.equal(a[name], value) for name, value in b.items())


def _stacked(states: Sequence[State]) -> dict[str, Tensor]:
    return {name: torch.stack([state[name] for state in states]) for name in states[0]}


def _of(stacked: State, owner: Tensor) -> dict[str, Tensor]:
    """Each row's own; no copy where that is all of them in order."""
    if torch.equal(owner, torch.arange(len(next(iter(stacked.values()))))):
        return dict(stacked)
    return {name: value[owner] for name, value in stacked.items()}


def _bytes_per_row(client: OneStep) -> int:
    """A double backward pass keeps each activation about eight times over, and each parameter's gradient four."""
    images = next(iter(client.seen.values())).new_zeros(client.setup.shape)
    sizes: list[int] = []
    handles = [
        layer.register_forward_hook(lambda layer, inputs, output: sizes.append(output.numel()))
        for layer in client.setup.model.modules()
        if not list(layer.children())
    ]
    with torch.no_grad():
        functional_call(client.setup.model, client.state, (images,))
    for handle in handles:
        handle.remove()
    parameters = sum(value.numel() for value in client.seen.values())
    return images.element_size() * (8 * sum(sizes) + 4 * parameters)

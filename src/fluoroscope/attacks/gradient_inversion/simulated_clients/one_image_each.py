"""Clients of one image each that begin from one state, by their statistics alone: their images are one batch.

One image's forward pass on a large network mostly waits for the weights; side by side they are read once.
"""

from collections.abc import Iterable
from typing import TypeGuard

import torch
from torch import Tensor

from fluoroscope.attacks.common.batch_statistics import mismatch
from fluoroscope.attacks.gradient_inversion.objective import OneStep
from fluoroscope.attacks.gradient_inversion.pullback import Statistics, SweptStatistics
from fluoroscope.attacks.gradient_inversion.pullback.rules.own_statistics import OWN_RULES
from fluoroscope.attacks.gradient_inversion.row_layout import Client, ObjectiveAndGradients
from fluoroscope.attacks.gradient_inversion.simulated_clients.stacked import bytes_per_row, in_chunks
from fluoroscope.errors import Unsupported
from fluoroscope.types import Observation, State

MANY = 16
"""Rows at once, beyond which another gains next to nothing."""


def can_share_a_batch(client: object) -> TypeGuard[OneStep]:
    """One image, of which the objective compares the statistics alone, on a network whose operations have rules."""
    if not isinstance(client, OneStep) or client.objective.distance is not None or not client.statistics:
        return False
    if client.setup.shape[0] != 1:
        return False
    images = next(iter(client.state.values())).new_zeros(client.setup.shape)
    try:
        SweptStatistics(client.setup.model, OWN_RULES).forward(client.state, images)
    except Unsupported:
        return False
    return True


def begin_alike(one: Observation, other: Observation) -> bool:
    """Whether both rounds began with one state, and gave the same layers' statistics away."""
    given = (observation.buffers_after or {} for observation in (one, other))
    states = ({**(seen.state_before or {}), **(seen.buffers_before or {})} for seen in (one, other))
    return len({frozenset(each) for each in given}) == 1 and _equal(*states)


def _equal(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(
        value is other[n] or torch.equal(value, other[n]) for n, value in one.items()
    )


class OneImageEach:
    """Such clients' rows."""

    def __init__(self, first: OneStep, others: Iterable[Client], owner: Tensor, memory: int) -> None:
        """As Vectorised's."""
        seen = [first.statistics]
        for client in others:
            assert isinstance(client, OneStep)
            seen.append(client.statistics)
        self._seen = {
            layer: Statistics(*(torch.stack(values) for values in zip(*(each[layer] for each in seen), strict=True)))
            for layer in first.statistics
        }
        self._objective, self._state, self._owner = first.objective, first.state, owner
        self._pullback = SweptStatistics(first.setup.model, OWN_RULES)
        self.at_once = max(1, min(MANY, memory // bytes_per_row(first)))

    def __call__(self, images: Tensor, logits: Tensor, rows: Tensor) -> ObjectiveAndGradients:
        """In as many chunks as memory asks for."""
        return in_chunks(self._chunk, self.at_once)(images, logits, rows)

    def _chunk(self, images: Tensor, logits: Tensor, rows: Tensor) -> ObjectiveAndGradients:
        tape = self._pullback.forward(self._state, images.flatten(0, 1))
        owner = self._owner[rows]
        seen = {layer: Statistics(*(value[owner] for value in pair)) for layer, pair in self._seen.items()}
        with torch.enable_grad():
            leaf = images.detach().requires_grad_()
            ours = {layer: Statistics(*(v.requires_grad_() for v in tape.statistics[layer])) for layer in seen}
            values = self._objective.batchnorm_weight * torch.vmap(mismatch)(ours, seen)
            for regulariser in self._objective.regularisers:
                values = values + torch.vmap(regulariser)(leaf)
            flat = [value for pair in ours.values() for value in pair]
            direct, *found = torch.autograd.grad(values.sum(), [leaf, *flat], allow_unused=True, materialize_grads=True)
        pairs = {layer: Statistics(found[2 * i], found[2 * i + 1]) for i, layer in enumerate(ours)}
        pulled = self._pullback.backward(tape, pairs).view_as(images)
        return values.detach(), pulled + direct, torch.zeros_like(logits)

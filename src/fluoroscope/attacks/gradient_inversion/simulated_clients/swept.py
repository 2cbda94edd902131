"""Many observations of one step by tangent sweeps: for small plain networks, where it halves the time of `vmap`."""

from collections.abc import Iterable
from typing import TypeGuard

import torch
from torch import Tensor

from fluoroscope.attacks.gradient_inversion.distances import OfSquares
from fluoroscope.attacks.gradient_inversion.objective import OneStep
from fluoroscope.attacks.gradient_inversion.pullback import TangentPullback
from fluoroscope.attacks.gradient_inversion.row_layout import Client, ObjectiveAndGradients
from fluoroscope.attacks.gradient_inversion.simulated_clients.stacked import StackedClients, bytes_per_row, in_chunks
from fluoroscope.errors import Unsupported
from fluoroscope.types import CrossEntropy

CACHE = 24 * 2**20
"""Bytes that stay near the processor, and are small enough that the allocator does not give them back."""


def can_sweep(client: object) -> TypeGuard[OneStep]:
    """One step, of which the objective compares gradients alone, by a network whose operations have rules for rows."""
    if not isinstance(client, OneStep) or client.objective.batchnorm_weight or client.objective.regularisers:
        return False
    if not isinstance(client.objective.distance, OfSquares):
        return False
    if not isinstance(client.loss, CrossEntropy) or not client.loss.plain:
        return False
    rows = {name: value[None] for name, value in client.state.items()}
    images = next(iter(client.seen.values())).new_zeros(1, *client.setup.shape)
    try:
        TangentPullback.of_rows(client.setup.model, client.loss).trace(rows, images)
    except Unsupported:
        return False
    return True


class Swept:
    """Clients of one architecture and shape."""

    def __init__(self, first: OneStep, others: Iterable[Client], owner: Tensor, memory: int) -> None:
        """As Vectorised's."""
        assert isinstance(first.loss, CrossEntropy)
        assert isinstance(first.objective.distance, OfSquares)
        self._distance, self._weight, self._names = (
            first.objective.distance,
            first.objective.distance_weight,
            first.seen,
        )
        self._loss, self._owner, self._clients = first.loss, owner, StackedClients(first, others)
        self._pullback = TangentPullback.of_rows(first.setup.model, first.loss)
        each = zip(*self._clients.seen.values(), strict=True)
        self._units = torch.stack([self._distance.units(layers) for layers in each])
        self.at_once = max(1, min(memory, CACHE) // bytes_per_row(first))

    def __call__(self, images: Tensor, logits: Tensor, rows: Tensor) -> ObjectiveAndGradients:
        """In as many chunks as memory and cache ask for."""
        return in_chunks(self._chunk, self.at_once)(images, logits, rows)

    def _chunk(self, images: Tensor, logits: Tensor, rows: Tensor) -> ObjectiveAndGradients:
        owner = self._owner[rows]
        state, seen = self._clients.state_of(owner), self._clients.seen_of(owner)
        if self._clients.shared:
            state = {name: value.expand(len(rows), *value.shape) for name, value in state.items()}
        labels = self._loss.soft(logits)
        tape = self._pullback.forward(state, images, labels)
        gaps = [tape.gradients[name].sub_(seen[name]) for name in self._names]  # in place: they are large
        squares = torch.stack([torch.linalg.vector_norm(gap.flatten(1), dim=1) for gap in gaps], 1).square()
        values, slopes = self._distance.sloped(self._weight, squares, self._units[owner])
        # The derivative of f(|gap|^2) is 2 f' gap. All that follows is linear in it: a slope that all layers of a row
        # share is left to the end, where tensors are small.
        shared = slopes[:, 0] if bool((slopes == slopes[:, :1]).all()) else None
        if shared is None:
            for gap, slope in zip(gaps, slopes.T, strict=True):
                gap.mul_(_over(slope, gap))
        cotangents = dict(zip(self._names, gaps, strict=True))
        to_images, to_labels = self._pullback.backward(tape, cotangents, {})
        after = 2 * (torch.ones_like(values) if shared is None else shared)
        return (
            values,
            to_images * _over(after, to_images),
            self._loss.pulled(labels, to_labels * _over(after, to_labels)),
        )


def _over(values: Tensor, like: Tensor) -> Tensor:
    """A value per row, shaped to meet (rows, ...)."""
    return values.view(-1, *[1] * (like.ndim - 1))

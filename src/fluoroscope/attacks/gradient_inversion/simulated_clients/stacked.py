"""Clients of one architecture and shape side by side: what each holds, with the client as the first axis."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.func import functional_call

from fluoroscope.attacks.gradient_inversion.objective import OneStep
from fluoroscope.attacks.gradient_inversion.row_layout import Client, ObjectiveAndGradients, RowEvaluate
from fluoroscope.types import State


class StackedClients:
    """Weights that all of them start from are held once."""

    def __init__(self, first: OneStep, others: Iterable[Client]) -> None:
        states, seen = [first.state], [first.seen]
        for client in others:  # of the others only this is kept: their networks are the first one's
            assert isinstance(client, OneStep)
            states.append(client.state)
            seen.append(client.seen)
        self.shared = all(_same(state, first.state) for state in states[1:])
        self.state = dict(first.state) if self.shared else _stacked(states)
        self.seen = _stacked(seen)

    def state_of(self, clients: Tensor) -> State:
        """Each one's own state, or the one that all share, without that axis."""
        return self.state if self.shared else _of(self.state, clients)

    def seen_of(self, clients: Tensor) -> State:
        """What each sent."""
        return _of(self.seen, clients)


def in_chunks(evaluate: RowEvaluate, at_once: int) -> RowEvaluate:
    """The same, so many rows at once."""

    def chunked(images: Tensor, logits: Tensor, rows: Tensor) -> ObjectiveAndGradients:
        parts = (torch.split(part, at_once) for part in (images, logits, rows))
        found = [evaluate(*chunk) for chunk in zip(*parts, strict=True)]
        values, to_images, to_logits = (torch.cat(parts) for parts in zip(*found, strict=True))
        return values, to_images, to_logits

    return chunked


def bytes_per_row(client: OneStep) -> int:
    """A double backward pass keeps each activation about eight times over, and each parameter's gradient four."""
    images = next(iter(client.state.values())).new_zeros(client.setup.shape)
    sizes: list[int] = []
    handles = [
        layer.register_forward_hook(lambda layer, inputs, output: sizes.append(output.numel()))
        for layer in client.setup.model.modules()
        if not list(layer.children())
    ]
    state = {name: value.clone() for name, value in client.state.items()}  # BatchNorm changes its buffers in place
    with torch.no_grad():
        functional_call(client.setup.model, state, (images,))
    for handle in handles:
        handle.remove()
    parameters = sum(value.numel() for value in client.seen.values())
    return images.element_size() * (8 * sum(sizes) + 4 * parameters)


def _same(a: State, b: State) -> bool:
    return all(a[name] is value or torch.equal(a[name], value) for name, value in b.items())


def _stacked(states: Sequence[State]) -> dict[str, Tensor]:
    return {name: torch.stack([state[name] for state in states]) for name in states[0]}


def _of(stacked: State, clients: Tensor) -> dict[str, Tensor]:
    """No copy where they are neighbours."""
    first = int(clients[0])
    if torch.equal(clients, torch.arange(first, first + len(clients))):
        return {name: value[first : first + len(clients)] for name, value in stacked.items()}
    return {name: value[clients] for name, value in stacked.items()}

"""A client's optimiser as one rule that works in place for clients and out of place for attackers.

An attacker differentiates through the client's steps, so the update must exist as a graph; a client
must not pay for that. Tests hold both ways against torch.optim.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fluoroscope.types import Adam, AdamW, LocalOptimiser, Sgd

Tensors = list[Tensor]


@dataclass
class Slots:
    """What an optimiser remembers between the steps of one round; it starts empty in every round."""

    step: int = 0
    first: Tensors = field(default_factory=list)
    second: Tensors = field(default_factory=list)


def step(optimiser: LocalOptimiser, parameters: Tensors, gradients: Tensors, slots: Slots, in_place: bool) -> Tensors:
    """The parameters after one step; with `in_place` they are the tensors that came in."""
    slots.step += 1
    if isinstance(optimiser, AdamW):  # the decay is no part of the gradient: w <- w - lr wd w, then Adam's step
        parameters = _scaled(parameters, 1 - optimiser.lr * optimiser.weight_decay, in_place)
        direction = _adam_direction(optimiser, gradients, slots, in_place)
    elif isinstance(optimiser, Adam):
        direction = _adam_direction(optimiser, _decayed(optimiser, parameters, gradients), slots, in_place)
    elif isinstance(optimiser, Sgd):
        direction = _sgd_direction(optimiser, _decayed(optimiser, parameters, gradients), slots)
    else:  # one gradient, sent as it is
        direction = gradients
    if in_place:
        torch._foreach_add_(parameters, direction, alpha=-optimiser.lr)
        return parameters
    return list(torch._foreach_add(parameters, direction, alpha=-optimiser.lr))


def _decayed(optimiser: Sgd | Adam, parameters: Tensors, gradients: Tensors) -> Tensors:
    if not optimiser.weight_decay:
        return gradients
    return list(torch._foreach_add(gradients, parameters, alpha=optimiser.weight_decay))


def _scaled(parameters: Tensors, factor: float, in_place: bool) -> Tensors:
    if not in_place:
        return list(torch._foreach_mul(parameters, factor))
    torch._foreach_mul_(parameters, factor)
    return parameters


def _sgd_direction(optimiser: Sgd, gradients: Tensors, slots: Slots) -> Tensors:
    if not optimiser.momentum:
        return gradients
    moved = list(torch._foreach_add(gradients, slots.first, alpha=optimiser.momentum)) if slots.first else gradients
    slots.first = moved
    return list(torch._foreach_add(gradients, moved, alpha=optimiser.momentum)) if optimiser.nesterov else moved


def _adam_direction(optimiser: Adam, gradients: Tensors, slots: Slots, in_place: bool) -> Tensors:
    beta1, beta2 = optimiser.betas
    if not slots.first:
        slots.first = [torch.zeros_like(g) for g in gradients]
        slots.second = [torch.zeros_like(g) for g in gradients]
    correction1, correction2 = 1 - beta1**slots.step, 1 - beta2**slots.step
    if in_place:
        torch._foreach_lerp_(slots.first, gradients, 1 - beta1)
        torch._foreach_mul_(slots.second, beta2)
        torch._foreach_addcmul_(slots.second, gradients, gradients, 1 - beta2)
        roots = torch._foreach_sqrt(slots.second)
        torch._foreach_div_(roots, correction2**0.5 / correction1)
        torch._foreach_add_(roots, optimiser.eps * correction1)
        return list(torch._foreach_div(slots.first, roots))
    slots.first = [m * beta1 + g * (1 - beta1) for m, g in zip(slots.first, gradients, strict=True)]
    slots.second = [v * beta2 + g * g * (1 - beta2) for v, g in zip(slots.second, gradients, strict=True)]
    return [
        (m / correction1) / (_root(v / correction2) + optimiser.eps)
        for m, v in zip(slots.first, slots.second, strict=True)
    ]


def _root(value: Tensor) -> Tensor:
    """The square root, with derivative 0 instead of infinity at 0: a dead unit must not turn an attack into NaN."""
    return torch.where(value > 0, torch.where(value > 0, value, 1.0).sqrt(), 0.0)

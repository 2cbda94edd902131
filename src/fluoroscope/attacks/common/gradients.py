"""The gradient behind an update: what the client's optimiser made of it, undone."""

from typing import NamedTuple

import torch
from torch import Tensor

from fluoroscope.attacks.common.setup import Setup
from fluoroscope.federation.optimisers import Slots, step
from fluoroscope.types import Adam, AdamW, LocalTraining, Sgd

ARITHMETIC = 2 * 2.0**-24
"""Standard deviation of what float32 makes of Adam's own formula, relative: about ten roundings, even over 2^-24."""
SATURATED = 2.0
"""Where lr - |step| is below so many deviations of its rounding, a first step of Adam says that g is large, no more."""


class Reading(NamedTuple):
    """A gradient as an update shows it, value by value."""

    value: Tensor
    """The best estimate, float64."""
    deviation: Tensor
    """Standard deviation of its error."""
    beyond: Tensor
    """1 or -1 where the truth is the value or anything above or below it; 0 where it is the value."""


def is_exact(training: LocalTraining) -> bool:
    """Whether an update is one batch's gradient in a form that can be undone to the last digit."""
    return training.steps == 1 and not isinstance(training.optimiser, Adam) and training.clip_norm is None


def gradient_of(setup: Setup) -> dict[str, Tensor] | None:
    """The mean gradient of the client's steps, by parameter that was trained and sent; None where no formula gives it.

    Exact for one step of SGD, whose decay and first momentum are undone, and for a gradient sent as it is; up to a
    factor where the client clipped it. Near for the first step of Adam and AdamW (`first_step_of_adam`). Of several
    steps of SGD a sum of their gradients, free of decay, which momentum weighs unevenly; of several steps of Adam
    nothing.
    """
    training, before = setup.training, setup.state
    optimiser, steps = training.optimiser, training.steps
    if isinstance(optimiser, Adam):
        return None if steps > 1 else {n: r.value.to(before[n].dtype) for n, r in first_step_of_adam(setup).items()}
    over = -optimiser.lr * steps
    if not isinstance(optimiser, Sgd):
        return {name: value / over for name, value in setup.update.items()}
    if steps == 1 and optimiser.nesterov:  # Nesterov's first step: g + momentum g
        over *= 1 + optimiser.momentum
    lost = 1 - left_by_decay(training)
    return {name: (value + lost * before[name]) / over for name, value in setup.update.items()}


def left_by_decay(training: LocalTraining) -> float:
    """What a round without any gradient would leave of a weight of 1.

    SGD is linear: the weight after the round is this times the weight before it, less a sum of gradients.

    Example:
        >>> from fluoroscope import LocalTraining, Sgd
        >>> round(left_by_decay(LocalTraining(Sgd(0.1, weight_decay=0.5), images=2, batch_size=1)), 4)
        0.9025
    """
    weight, slots = [torch.ones((), dtype=torch.float64)], Slots()
    for _ in range(training.steps):
        drift = [training.proximal_mu * (weight[0] - 1)]  # FedProx pulls back to where the round began
        weight = step(training.optimiser, weight, drift, slots, in_place=False)
    return float(weight[0])


def first_step_of_adam(setup: Setup) -> dict[str, Reading]:
    """The gradient behind one step of Adam or AdamW from zero moments, and how well each of its values is known.

    step = -lr g / (|g| + eps), so |g| = eps (1 - u) / u with u = 1 - |step| / lr. What the step was is known up to the
    rounding of the weight that it was added to: an error s of u is one of eps s / u^2 of g.
    """
    optimiser = setup.training.optimiser
    assert isinstance(optimiser, Adam)
    return {name: _read(optimiser, value, setup.state[name]) for name, value in setup.update.items()}


def _read(optimiser: Adam, update: Tensor, before: Tensor) -> Reading:
    lr, decay = optimiser.lr, optimiser.weight_decay
    after = before + update
    # AdamW shrinks the weight first, and rounds it: so does its reader.
    stood = before * (1 - lr * decay) if isinstance(optimiser, AdamW) else before
    moved = after.double() - stood.double()
    left = 1 - moved.abs() / lr
    error = ((_spacing(after) / lr).square() / 12 + ARITHMETIC**2).sqrt()  # a rounding is even over the spacing
    short = left.clamp_min(error)
    towards = -moved.sign()
    value = towards * optimiser.eps * (1 - short).clamp_min(0) / short
    if not isinstance(optimiser, AdamW):
        value = value - decay * before.double()
    return Reading(
        value,
        optimiser.eps * error / short.square(),
        torch.where(left < SATURATED * error, towards, 0.0),
    )


def _spacing(values: Tensor) -> Tensor:
    """The distance between neighbouring floating-point numbers there, float64."""
    kind = torch.finfo(values.dtype)
    _, exponent = torch.frexp(values.abs().clamp_min(kind.tiny))
    return torch.ldexp(torch.full_like(values, kind.eps / 2, dtype=torch.float64), exponent)

"""The gradient behind an update: what the client's optimiser made of it, undone."""

from torch import Tensor

from fluoroscope.attacks.common.setup import Setup
from fluoroscope.types import Adam, AdamW, LocalTraining, Sgd

SATURATED = 1 - 2.0**-22
"""The largest share of lr that a first step of Adam is read from: beyond it, rounding says nothing of the gradient."""


def is_exact(training: LocalTraining) -> bool:
    """Whether an update is one batch's gradient in a form that can be undone to the last digit."""
    return training.steps == 1 and not isinstance(training.optimiser, Adam) and training.clip_norm is None


def gradient_of(setup: Setup) -> dict[str, Tensor] | None:
    """The mean gradient of the client's steps, by parameter that was trained and sent; None where no formula gives it.

    Exact for one step of SGD, whose decay and first momentum are undone, and for a gradient sent as it is; up to a
    factor where the client clipped it. Near for the first step of Adam and AdamW, whose moments start at zero: from
    step = -lr g / (|g| + eps) follows |g| = eps r / (1 - r) with r = |step| / lr. Of several steps of SGD the mean
    direction, which decay and momentum bend; of several steps of Adam nothing.
    """
    training, before = setup.training, setup.state
    optimiser, steps = training.optimiser, training.steps
    if isinstance(optimiser, Adam):
        return None if steps > 1 else {n: _first_adam(optimiser, v, before[n]) for n, v in setup.update.items()}
    found = {name: value / (-optimiser.lr * steps) for name, value in setup.update.items()}
    if steps > 1 or not isinstance(optimiser, Sgd):
        return found
    ahead = 1 + optimiser.momentum if optimiser.nesterov else 1.0  # Nesterov's first step: g + momentum g
    return {name: value / ahead - optimiser.weight_decay * before[name] for name, value in found.items()}


def _first_adam(optimiser: Adam, update: Tensor, before: Tensor) -> Tensor:
    lr, decay = optimiser.lr, optimiser.weight_decay
    step = update + lr * decay * before if isinstance(optimiser, AdamW) else update
    share = (step / lr).abs().clamp_max(SATURATED)
    gradient = -step.sign() * optimiser.eps * share / (1 - share)
    return gradient if isinstance(optimiser, AdamW) else gradient - decay * before

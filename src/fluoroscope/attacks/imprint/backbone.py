"""The agreed network behind a front, crafted: where its gradient meets the front, and how large it is."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp, vjp

from fluoroscope.errors import Unsupported
from fluoroscope.models.modes import client_mode, use_mode
from fluoroscope.types import LocalTraining, State

COPIES = 8
DROPPED = 0.2
"""By how much dropout may change a logit (standard deviation), so that images of a class are predicted alike."""
UNSURE = 0.15
"""How far the predicted share of the commonest class must be from the true one, so that the gate's push is sure."""


@dataclass(frozen=True, eq=False)
class Backbone:
    """A network that sees nearly the same image, `base`, for all images that go in."""

    state: dict[str, Tensor]
    direction: Tensor
    """(pixels,), unit length: along it the score of the commonest class rises fastest."""


def tune_head(network: nn.Module, state: State, base: Tensor, shares: Tensor, training: LocalTraining) -> Backbone:
    """Set the head so that the loss has nearly the same gradient at `base` for every image of a class.

    The head reads what it is given as that moves with the base: all that it reads then adds up, and dropout of some of
    it takes a little of the gradient, where of a random head's it may leave nothing. As the victim trains it: BatchNorm
    by the batch's statistics, dropout on.
    """
    heads = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not heads or f"{heads[-1]}.bias" not in state:
        raise Unsupported(f"{type(network).__name__} ends in no dense layer with a bias; choose another network.")
    common = int(shares.argmax())
    share = float(shares[common])
    # Away from the classes' balance on the side where every image keeps a good part of its gradient.
    predicted = 0.5 if abs(share - 0.5) >= UNSURE else share - 2 * UNSURE
    target = torch.full_like(shares, (1 - predicted) / (len(shares) - 1))
    target[common] = predicted
    weight, bias = f"{heads[-1]}.weight", f"{heads[-1]}.bias"
    # Where BatchNorm has one value an image, a batch of equal images has no slope; the network at rest has one.
    for mode in (client_mode(network, training), use_mode(network, training.normalisation)):
        read, level, direction = _aligned(mode, heads[-1], state, base)
        if read.any():
            rows, logits = torch.zeros_like(state[weight]), target.log()
            rows[common] = read
            logits[common] -= level
            return Backbone({**state, weight: rows, bias: logits}, direction)
    raise Unsupported(f"{type(network).__name__} gives the front no gradient; start it from other weights.")


def _aligned(network: nn.Module, head: str, state: State, base: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A row for the head, 0 without any; what it reads at the base, and the direction along which all of it adds up.

    Of the Jacobian J at the base: direction J'w for any w, as the head is, and row J J'w.
    """
    images = base.repeat(COPIES, 1, 1, 1)

    def given(images: Tensor) -> Tensor:
        seen: list[Tensor] = []
        handle = network.get_submodule(head).register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        try:
            copies = {name: value.clone() for name, value in state.items()}  # BatchNorm writes into its statistics
            functional_call(network, copies, (images,))
        finally:
            handle.remove()
        return seen[0]

    old = state[f"{head}.weight"][0]
    at_rest, back = vjp(given, images)[:2]
    (slopes,) = back(old.expand_as(at_rest))
    slope = slopes.sum(0)
    tiny = torch.finfo(slope.dtype).tiny
    direction = slope / slope.norm().clamp_min(tiny)
    moved = jvp(given, (images,), (direction.repeat(COPIES, 1, 1, 1),))[1].mean(0)
    row = moved / moved.norm().clamp_min(tiny)
    # As steep as it was, or training would turn it; unless dropout then changes what is predicted.
    steep, quiet = slope.norm() / COPIES / moved.norm().clamp_min(tiny), DROPPED / (at_rest @ row).std().clamp_min(tiny)
    read = torch.minimum(steep, quiet) * row
    return read, (at_rest @ read).mean(), direction.flatten()

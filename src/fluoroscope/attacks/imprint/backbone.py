"""The agreed network behind a front, crafted: where its gradient meets the front, and how large it is."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fluoroscope.errors import Unsupported
from fluoroscope.models.modes import client_mode, use_mode
from fluoroscope.types import LocalTraining, State

COPIES = 8
UNSURE = 0.15
"""How far the predicted share of the commonest class must be from the true one, so that the gate's push is sure."""


@dataclass(frozen=True, eq=False)
class Backbone:
    """A network that sees nearly the same image, `base`, for all images that go in."""

    state: dict[str, Tensor]
    direction: Tensor
    """(pixels,), unit length: along it the score of the commonest class rises fastest."""


def tune_head(network: nn.Module, state: State, base: Tensor, shares: Tensor, training: LocalTraining) -> Backbone:
    """Set the head so that the loss has a gradient at `base` for every image, whatever its class.

    As the victim trains it: BatchNorm by the batch's statistics, dropout on.
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
    name = f"{heads[-1]}.bias"
    # Where BatchNorm has one value an image, a batch of equal images has no slope; the network at rest has one.
    for mode in (client_mode(network, training), use_mode(network, training.normalisation)):
        logits, slope = _seen(mode, state, base, common)
        size = float(slope.norm())
        if size > 0:
            return Backbone({**state, name: state[name] - logits + target.log()}, slope.flatten() / size)
    raise Unsupported(f"{type(network).__name__} gives the front no gradient; start it from other weights.")


def _seen(network: nn.Module, state: State, base: Tensor, common: int) -> tuple[Tensor, Tensor]:
    """The mean logits of copies of the base, and the slope of the commonest class's score above the others'."""
    images = base.repeat(COPIES, 1, 1, 1).requires_grad_()
    copies = {name: value.clone() for name, value in state.items()}  # BatchNorm writes into its statistics
    logits = functional_call(network, copies, (images,)).mean(0)
    others = [i for i in range(len(logits)) if i != common]
    (slopes,) = torch.autograd.grad(logits[common] - logits[others].mean(), images)
    return logits.detach(), slopes.sum(0)

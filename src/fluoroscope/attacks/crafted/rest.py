"""The agreed network behind a front, crafted: where its gradient meets the front, and how large it is."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fluoroscope.errors import Unsupported
from fluoroscope.types import State

UNSURE = 0.15
"""How far the predicted share of the commonest class must be from the true one, so that the gate's push is sure."""


@dataclass(frozen=True, eq=False)
class Rest:
    """A network that sees nearly the same image, `base`, for all images that go in."""

    state: dict[str, Tensor]
    direction: Tensor
    """(pixels,), unit length: along it the score of the commonest class rises fastest."""
    slope: float
    """Of that score, along the direction."""
    push: float
    """Mean derivative of the loss by that score, over images with the auxiliary set's classes; not 0."""


def aim(network: nn.Module, state: State, base: Tensor, shares: Tensor) -> Rest:
    """Set the head so that the loss has a gradient at `base` for every image, whatever its class."""
    heads = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not heads or f"{heads[-1]}.bias" not in state:
        raise Unsupported(f"{type(network).__name__} ends in no dense layer with a bias; choose another network.")
    network = network.eval()
    common = int(shares.argmax())
    share = float(shares[common])
    # Away from the classes' balance on the side where every image keeps a good part of its gradient.
    predicted = 0.5 if abs(share - 0.5) >= UNSURE else share - 2 * UNSURE
    target = torch.full_like(shares, (1 - predicted) / (len(shares) - 1))
    target[common] = predicted
    image = base[None].clone().requires_grad_()
    logits = functional_call(network, dict(state), (image,))[0]
    name = f"{heads[-1]}.bias"
    crafted = {**state, name: state[name] - logits.detach() + target.log()}
    others = [i for i in range(len(shares)) if i != common]
    (slope,) = torch.autograd.grad(logits[common] - logits[others].mean(), image)
    size = float(slope.norm())
    if not size > 0:
        raise Unsupported(f"{type(network).__name__} gives the front no gradient; start it from other weights.")
    return Rest(crafted, slope.flatten() / size, size, predicted - share)

"""The dense layers of a network in the order in which they run, with what each is given."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fluoroscope.attacks.common.setup import Setup
from fluoroscope.models.modes import named_buffers

PROBES = 8
AFFINE = 1e-4
"""Of its own deviation, how far an input may be from pixels times a number plus a number."""


@dataclass(frozen=True, eq=False)
class Pixels:
    """An input that is the image itself, channel by channel times `slope` plus `shift`."""

    slope: Tensor
    """(channels, 1, 1)."""
    shift: Tensor

    def images(self, inputs: Tensor, shape: tuple[int, int, int]) -> Tensor:
        """(n, values) -> (n, channels, height, width)."""
        return (inputs.view(-1, *shape) - self.shift) / self.slope


@dataclass(frozen=True, eq=False)
class Dense:
    """A dense layer on one vector per image."""

    name: str
    inputs: int
    outputs: int
    sparse: bool
    """Whether its input comes out of a ReLU: never negative, often zero."""
    pixels: Pixels | None
    """Whether its input is the image itself."""
    grid: tuple[int, int, int] | None = None
    """Channels, height and width of the maps that its input is made of; None where it is none."""


def dense_layers(setup: Setup, rng: torch.Generator) -> list[Dense]:
    """The dense layers with a trained weight that was sent, as one pass of random images meets them."""
    names = {module: name for name, module in setup.model.named_modules()}
    probes = torch.rand((PROBES, *setup.network.input_shape), generator=rng)
    found: list[Dense] = []
    grids = {probes[0].numel(): setup.network.input_shape}

    def note(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if isinstance(output, Tensor) and output.ndim == 4:
            grids[output[0].numel()] = (output.shape[1], output.shape[2], output.shape[3])
        if not isinstance(module, nn.Linear):
            return
        (x,) = inputs
        if x.ndim == 2 and len(x) == PROBES and f"{names[module]}.weight" in setup.update:
            sparse = bool(x.min() >= 0) and bool((x == 0).any())
            pixels = _pixels(x, probes)
            grid = grids.get(x.shape[1])
            found.append(Dense(names[module], x.shape[1], output.shape[1], sparse and pixels is None, pixels, grid))

    handles = [module.register_forward_hook(note) for module in setup.model.modules()]
    state = {**setup.state, **named_buffers(setup.model, setup.state)}
    try:
        with torch.no_grad():
            functional_call(setup.model, {name: value.clone() for name, value in state.items()}, (probes,))
    finally:
        for handle in handles:
            handle.remove()
    return found


def _pixels(x: Tensor, images: Tensor) -> Pixels | None:
    """How an input is made of pixels, where it is: one line per channel."""
    if x[0].numel() != images[0].numel():
        return None
    ours, theirs = (v.double().view_as(images).transpose(0, 1).flatten(1) for v in (x, images))
    spread = theirs - theirs.mean(1, keepdim=True)
    slope = (spread * ours).sum(1) / spread.square().sum(1)
    shift = ours.mean(1) - slope * theirs.mean(1)
    off = (ours - slope[:, None] * theirs - shift[:, None]).abs().amax(1)
    if not bool((off < AFFINE * ours.std(1)).all()):
        return None
    return Pixels(slope[:, None, None], shift[:, None, None])

"""The convolutions of a network in the order in which they run, with what the attack needs to know of each."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from fluoroscope.types import State


@dataclass(frozen=True)
class Layer:
    """A convolution."""

    name: str
    norm: str | None
    """The BatchNorm right behind it; None where something else follows, such as GroupNorm."""
    fed_by: str | None
    """The convolution whose normalised, rectified output is the input of this one; None where it is something else."""
    sparse: bool
    """Whether its input comes out of a ReLU: never negative, often zero."""
    shape: tuple[int, int, int]
    """Channels, height and width of its input."""
    grid: tuple[int, int]
    """Height and width of its output."""
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def positions(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def slides(self) -> bool:
        """Whether every pixel is seen by as many taps as there are: then its maps are determined without gaps."""
        return self.stride == (1, 1) and min(self.kernel) > 1

    def patches(self, maps: Tensor) -> Tensor:
        """(n, channels, h, w) -> (n, channels x kernel, positions)."""
        return F.unfold(maps, self.kernel, self.dilation, self.padding, self.stride)

    def fold(self, patches: Tensor) -> Tensor:
        """The transpose of `patches`."""
        return F.fold(patches, self.shape[1:], self.kernel, self.dilation, self.padding, self.stride)


def layers(model: nn.Module, state: State, images: Tensor) -> list[Layer]:
    """The convolutions, as one pass of any `images` meets them."""
    names = {module: name for name, module in model.named_modules()}
    made: dict[int, tuple[str, str | None]] = {}  # a tensor -> what made it, and for a ReLU: the convolution behind it
    held: list[Tensor] = []  # keeps tensors alive, so that no two have one id
    found: list[tuple[str, nn.Conv2d, Tensor, Tensor, str | None]] = []
    norms: dict[str, str] = {}

    def note(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        (x,) = inputs
        kind, origin = made.get(id(x), ("", None))
        held.extend((x, output))
        if isinstance(module, nn.Conv2d):
            found.append((names[module], module, x, output, origin if kind == "relu" else None))
            made[id(output)] = ("convolution", names[module])
        elif isinstance(module, nn.BatchNorm2d) and kind == "convolution" and origin is not None:
            norms[origin] = names[module]
            made[id(output)] = ("norm", origin)
        elif isinstance(module, nn.ReLU) and kind == "norm":
            made[id(output)] = ("relu", origin)

    handles = [
        module.register_forward_hook(note)
        for module in model.modules()
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d | nn.ReLU)
    ]
    try:
        with torch.no_grad():
            functional_call(model, {name: value.clone() for name, value in state.items()}, (images,))
    finally:
        for handle in handles:
            handle.remove()
    return [
        Layer(
            name=name,
            norm=norms.get(name),
            fed_by=origin,
            sparse=bool(x.min() >= 0) and bool((x == 0).any()),
            shape=(x.shape[1], x.shape[2], x.shape[3]),
            grid=(output.shape[2], output.shape[3]),
            kernel=_pair(convolution.kernel_size),
            stride=_pair(convolution.stride),
            padding=_pair(convolution.padding),
            dilation=_pair(convolution.dilation),
        )
        for name, convolution, x, output, origin in found
        if convolution.groups == 1 and not isinstance(convolution.padding, str)
    ]


def _pair(value: object) -> tuple[int, int]:
    assert isinstance(value, tuple)
    return int(value[0]), int(value[1])

"""What only moves numbers about."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from fluoroscope.attacks.gradient_inversion.pullback.rules.op import Linear, Use


class View(Linear):
    """Flatten, reshape and view."""

    def __init__(self, size: list[int]) -> None:
        self.size = size

    def apply(self, x: Tensor) -> Tensor:
        return x.reshape(self.size)

    def transpose(self, cotangent: Tensor) -> Tensor:
        return cotangent.reshape(self.shape)


class Transpose(Linear):
    """A matrix transposed."""

    def apply(self, x: Tensor) -> Tensor:
        return x.mT

    def transpose(self, cotangent: Tensor) -> Tensor:
        return cotangent.mT


class Pad(Linear):
    """A frame of a constant, or a crop where the width is negative."""

    def __init__(self, widths: list[int], value: float) -> None:
        self.widths, self.value = widths, value

    def forward(self, inputs: tuple[Tensor, ...]) -> Tensor:  # type: ignore[override]
        return F.pad(inputs[0], self.widths, value=self.value)

    def apply(self, x: Tensor) -> Tensor:
        return F.pad(x, self.widths)

    def transpose(self, cotangent: Tensor) -> Tensor:
        return F.pad(cotangent, [-width for width in self.widths])


class Same(Linear):
    """A copy."""

    def apply(self, x: Tensor) -> Tensor:
        return x

    def transpose(self, cotangent: Tensor) -> Tensor:
        return cotangent


def view(x: Node, size: list[int]) -> Use:
    """aten.view and its kin."""
    return Use(partial(View, size), (x,))


def t(x: Node) -> Use:
    """aten.t."""
    return Use(Transpose, (x,))


def pad(x: Node, widths: list[int], value: float = 0) -> Use:
    """aten.constant_pad_nd."""
    return Use(partial(Pad, widths, value), (x,))


def same(x: Node, *, memory_format: torch.memory_format | None = None) -> Use:
    """aten.clone, aten.detach and aten.alias."""
    return Use(Same, (x,))

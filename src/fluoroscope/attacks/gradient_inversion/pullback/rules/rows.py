"""The rules for many problems side by side: every tensor, weights too, has the problem as its first axis.

A network small enough to gain from neighbours has convolutions of few channels. As products with the image's windows
they cost half of what grouped convolutions do.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from fluoroscope.attacks.gradient_inversion.pullback.rules import dense, pointwise, shape
from fluoroscope.attacks.gradient_inversion.pullback.rules.op import Inputs, Linear, Maybe, Op, Use, plus
from fluoroscope.errors import Unsupported

aten = torch.ops.aten


class Windows(Op):
    """A convolution: (rows, n, taps, positions) windows of the image, and kernels (rows, 1, out, taps)."""

    dweight: Maybe = None

    def __init__(self, stride: list[int], padding: list[int]) -> None:
        self.stride, self.padding = stride, padding

    def forward(self, inputs: Inputs) -> Tensor:
        x, weight, bias = inputs
        self.shape, self.kernel = x.shape, weight.shape
        sides = zip(self.shape[3:], self.padding, self.kernel[3:], self.stride, strict=True)
        self.sides = [(side + 2 * p - k) // s + 1 for side, p, k, s in sides]
        self.windows, self.weight = self._unfold(x), self._flat(weight)
        return self._image(self.weight @ self.windows, bias)

    def backward(self, cotangent: Tensor, needs: Sequence[bool]) -> Sequence[Maybe]:
        self.cotangent = cotangent.flatten(3)
        x = self._fold(self.weight.mT @ self.cotangent) if needs[0] else None
        weight = (self.cotangent @ self.windows.mT).sum(1).view(self.kernel) if needs[1] else None
        return x, weight, self.cotangent.sum((1, 3)) if needs[2] else None

    def tangent(self, tangents: Sequence[Maybe]) -> Tensor:
        dx, dweight, dbias = tangents
        self.dweight = None if dweight is None else self._flat(dweight)
        y = plus(
            None if dx is None else self.weight @ self._unfold(dx),
            None if self.dweight is None else self.dweight @ self.windows,
        )
        rows, images = self.shape[:2]
        if y is None:  # a bias has moved alone
            assert dbias is not None
            y = dbias.new_zeros(rows, images, self.kernel[1], self.sides[0] * self.sides[1])
        return self._image(y, dbias)

    def tangent_backward(self, cotangent: Maybe, needs: Sequence[bool]) -> Sequence[Maybe]:
        direct = None if cotangent is None else self.weight.mT @ cotangent.flatten(3)
        windows = plus(direct, None if self.dweight is None else self.dweight.mT @ self.cotangent)
        return None if windows is None or not needs[0] else self._fold(windows), None, None

    def _unfold(self, x: Tensor) -> Tensor:
        """As F.unfold, in half its time."""
        (down, across), (s, t) = self.padding, self.stride
        padded = F.pad(x.flatten(0, 1), (across, across, down, down))
        views = padded.unfold(2, self.kernel[3], s).unfold(3, self.kernel[4], t)  # (.., channels, h, w, k, l)
        return views.permute(0, 1, 4, 5, 2, 3).reshape(*x.shape[:2], -1, self.sides[0] * self.sides[1])

    def _fold(self, windows: Tensor) -> Tensor:
        flat, sizes = windows.flatten(0, 1), (self.shape[3:], self.kernel[3:])
        return F.fold(flat, *sizes, padding=tuple(self.padding), stride=tuple(self.stride)).view(self.shape)

    def _flat(self, weight: Tensor) -> Tensor:
        return weight.flatten(2)[:, None]

    def _image(self, y: Tensor, bias: Maybe) -> Tensor:
        return (y if bias is None else y.add_(bias[:, None, :, None])).view(*y.shape[:3], *self.sides)


class View(Linear):
    """Flatten, reshape and view, of each row."""

    def __init__(self, size: list[int]) -> None:
        self.size = size

    def apply(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), *self.size)

    def transpose(self, cotangent: Tensor) -> Tensor:
        return cotangent.reshape(self.shape)


def _convolution(
    x: Node,
    weight: Node,
    bias: Node | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Use:
    if transposed or groups > 1 or len(stride) != 2 or set(dilation) != {1}:
        raise Unsupported("only plain convolutions of images have a rule for many problems.")
    return Use(partial(Windows, stride, padding), (x, weight, bias))


def _view(x: Node, size: list[int]) -> Use:
    return Use(partial(View, size), (x,))


ROW_RULES: dict[object, Callable[..., Use]] = {
    aten.convolution.default: _convolution,
    aten.addmm.default: dense.addmm,
    aten.mm.default: dense.mm,
    aten.view.default: _view,
    aten._unsafe_view.default: _view,
    aten.t.default: shape.t,
    aten.relu.default: pointwise.relu,
    aten.hardtanh.default: pointwise.hardtanh,
    aten.sigmoid.default: pointwise.sigmoid,
}

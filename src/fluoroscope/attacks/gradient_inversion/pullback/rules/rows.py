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
    """A convolution as a product: kernels (rows, out, taps) with the windows (rows, taps, positions in all images)."""

    dweight: Maybe = None

    def __init__(self, stride: list[int], padding: list[int]) -> None:
        self.stride, self.padding = tuple(stride), tuple(padding)

    def forward(self, inputs: Inputs) -> Tensor:
        x, weight, bias = inputs
        self.shape, self.kernel = x.shape, weight.shape
        sides = zip(self.shape[3:], self.padding, self.kernel[3:], self.stride, strict=True)
        self.sides = [(side + 2 * p - k) // s + 1 for side, p, k, s in sides]
        self.windows, self.weight = self._unfold(x), weight.flatten(2)
        return self._image(self.weight @ self.windows, bias)

    def backward(self, cotangent: Tensor, needs: Sequence[bool]) -> Sequence[Maybe]:
        self.cotangent = self._flat(cotangent)
        x = self._fold(self.weight.mT @ self.cotangent) if needs[0] else None
        weight = (self.cotangent @ self.windows.mT).view(self.kernel) if needs[1] else None
        return x, weight, self.cotangent.sum(2) if needs[2] else None

    def tangent(self, tangents: Sequence[Maybe]) -> Tensor:
        dx, dweight, dbias = tangents
        self.dweight = None if dweight is None else dweight.flatten(2)
        y = plus(
            None if dx is None else self.weight @ self._unfold(dx),
            None if self.dweight is None else self.dweight @ self.windows,
        )
        if y is None:  # a bias has moved alone
            y = self.windows.new_zeros(len(self.windows), self.kernel[1], self.windows.shape[2])
        return self._image(y, dbias)

    def tangent_backward(self, cotangent: Maybe, needs: Sequence[bool]) -> Sequence[Maybe]:
        pairs = []
        if cotangent is not None:
            pairs.append((self.weight, self._flat(cotangent)))
        if self.dweight is not None:
            pairs.append((self.dweight, self.cotangent))
        if not pairs or not needs[0]:
            return None, None, None
        kernels, outputs = (torch.cat(parts, 1) for parts in zip(*pairs, strict=True))  # the sum of both products
        return self._fold(kernels.mT @ outputs), None, None

    def _unfold(self, x: Tensor) -> Tensor:
        """As F.unfold, in half its time."""
        (down, across), (s, t) = self.padding, self.stride
        padded = F.pad(x, (across, across, down, down))
        views = padded.unfold(3, self.kernel[3], s).unfold(4, self.kernel[4], t)  # (rows, n, channels, h, w, k, l)
        return views.permute(0, 2, 5, 6, 1, 3, 4).reshape(len(x), -1, self.shape[1] * self.sides[0] * self.sides[1])

    def _fold(self, windows: Tensor) -> Tensor:
        by_image = windows.unflatten(2, (self.shape[1], -1)).transpose(1, 2).flatten(0, 1)  # type: ignore[no-untyped-call]
        found = F.fold(by_image, self.shape[3:], self.kernel[3:], padding=self.padding, stride=self.stride)
        return found.view(self.shape)

    def _flat(self, image: Tensor) -> Tensor:
        return image.transpose(1, 2).flatten(2)

    def _image(self, y: Tensor, bias: Maybe) -> Tensor:
        y = y if bias is None else y.add_(bias[:, :, None])
        return y.view(*y.shape[:2], self.shape[1], *self.sides).transpose(1, 2)


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

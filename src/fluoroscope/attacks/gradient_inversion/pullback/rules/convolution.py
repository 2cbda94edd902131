"""Convolution: bilinear in image and kernel."""

import math
from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from fluoroscope.attacks.gradient_inversion.pullback.rules.op import Inputs, Maybe, Op, Use, plus
from fluoroscope.errors import Unsupported

aten = torch.ops.aten


FEW = 8
"""Places of the output up to which a product goes by its transpose, in a fifth of the time that torch's own takes."""


class Convolution(Op):
    """Seven convolutions in all: one, two, two and two.

    One image on a deep layer has next to no places: torch multiplies a wide matrix by a handful of columns, at which
    its libraries are slow. A handful of rows by the same matrix they are not.
    """

    dweight: Maybe = None

    def __init__(self, stride: list[int], padding: list[int], dilation: list[int], groups: int) -> None:
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups

    def forward(self, inputs: Inputs) -> Tensor:
        self.x, self.weight, bias = inputs
        y = self._convolve(self.x, self.weight, bias)
        self.shape = y.shape
        return y

    def backward(self, cotangent: Tensor, needs: Sequence[bool]) -> Sequence[Maybe]:
        self.cotangent = cotangent
        bias = cotangent.sum(dim=[0, *range(2, cotangent.ndim)]) if needs[2] else None
        if self._has_few_places(self.x, self.weight):
            _, weight, _ = self._convolve_backward(cotangent, self.x, self.weight, [False, needs[1], False])
            return self._data(cotangent, self.weight) if needs[0] else None, weight, bias
        x, weight, _ = self._convolve_backward(cotangent, self.x, self.weight, [needs[0], needs[1], False])
        return x, weight, bias

    def tangent(self, tangents: Sequence[Maybe]) -> Tensor:
        dx, self.dweight, dbias = tangents
        if self.dweight is None and dx is None:
            assert dbias is not None
            return dbias.view(-1, *[1] * (len(self.shape) - 2)).expand(self.shape)
        if self.dweight is None:
            return self._convolve(dx, self.weight, dbias)
        if dx is None:
            return self._convolve(self.x, self.dweight, dbias)
        return self._convolve(dx, self.weight, dbias).add_(self._convolve(self.x, self.dweight, None))

    def tangent_backward(self, cotangent: Maybe, needs: Sequence[bool]) -> Sequence[Maybe]:
        if not needs[0]:
            return None, None, None
        direct = None if cotangent is None else self._data(cotangent, self.weight)
        return plus(direct, None if self.dweight is None else self._data(self.cotangent, self.dweight)), None, None

    def _has_few_places(self, x: Tensor, weight: Tensor) -> bool:
        if x.ndim != 4 or len(x) != 1 or self.groups != 1 or set(self.dilation) != {1}:
            return False
        return math.prod(self._sides(x, weight)) <= FEW

    def _sides(self, x: Tensor, weight: Tensor) -> list[int]:
        sides = zip(x.shape[2:], self.padding, weight.shape[2:], self.stride, strict=True)
        return [(side + 2 * p - k) // s + 1 for side, p, k, s in sides]

    def _convolve(self, x: Maybe, weight: Tensor, bias: Maybe) -> Tensor:
        assert x is not None
        if self._has_few_places(x, weight):
            padding, stride = tuple(self.padding), tuple(self.stride)
            (windows,) = F.unfold(x, weight.shape[2:], padding=padding, stride=stride)
            product: Tensor = windows.T @ weight.flatten(1).T
            product = product if bias is None else product + bias
            return product.T.reshape(1, -1, *self._sides(x, weight))
        y: Tensor = aten.convolution(
            x, weight, bias, self.stride, self.padding, self.dilation, False, [0] * len(self.stride), self.groups
        )
        return y

    def _data(self, cotangent: Tensor, weight: Tensor) -> Tensor:
        if self._has_few_places(self.x, weight):
            windows = (cotangent[0].flatten(1).T @ weight.flatten(1)).T
            padding, stride = tuple(self.padding), tuple(self.stride)
            return F.fold(windows[None], self.x.shape[2:], weight.shape[2:], padding=padding, stride=stride)
        x = self._convolve_backward(cotangent, self.x, weight, [True, False, False])[0]
        assert x is not None
        return x

    def _convolve_backward(self, cotangent: Tensor, x: Tensor, weight: Tensor, mask: list[bool]) -> Sequence[Maybe]:
        parts: Sequence[Maybe] = aten.convolution_backward(
            cotangent,
            x,
            weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            False,
            [0] * len(self.stride),
            self.groups,
            mask,
        )
        return parts


def convolution(
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
    """aten.convolution."""
    if transposed:
        raise Unsupported("there is no tangent rule for a transposed convolution.")
    return Use(partial(Convolution, stride, padding, dilation, groups), (x, weight, bias))

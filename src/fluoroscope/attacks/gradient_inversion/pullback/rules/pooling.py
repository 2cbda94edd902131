"""Pooling: linear, once the places of the maxima are known."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.fx import Node

from fluoroscope.attacks.gradient_inversion.pullback.rules.op import Inputs, Linear, Use

aten = torch.ops.aten
Pair = Sequence[int]


class MaxPool(Linear):
    """Takes and gives back at the places that the forward sweep chose."""

    def __init__(self, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil: bool) -> None:
        self.settings = (kernel, stride, padding, dilation, ceil)

    def forward(self, inputs: Inputs) -> Tensor:
        self.x: Tensor = inputs[0]
        y, self.places = aten.max_pool2d_with_indices(self.x, *self.settings)
        return y  # type: ignore[no-any-return]

    def apply(self, x: Tensor) -> Tensor:
        return x.flatten(2).gather(2, self.places.flatten(2)).view(self.places.shape)

    def transpose(self, cotangent: Tensor) -> Tensor:
        x: Tensor = aten.max_pool2d_with_indices_backward(cotangent, self.x, *self.settings, self.places)
        return x


class AvgPool(Linear):
    """Means of windows."""

    def __init__(self, *settings: object) -> None:
        self.settings = settings

    def apply(self, x: Tensor) -> Tensor:
        return aten.avg_pool2d(x, *self.settings)  # type: ignore[no-any-return]

    def transpose(self, cotangent: Tensor) -> Tensor:
        like = cotangent.new_empty(1).expand(self.shape)  # only its shape is read
        return aten.avg_pool2d_backward(cotangent, like, *self.settings)  # type: ignore[no-any-return]


class AdaptiveAvgPool(Linear):
    """Means of a grid of windows."""

    def __init__(self, grid: Pair) -> None:
        self.grid = grid

    def apply(self, x: Tensor) -> Tensor:
        return aten._adaptive_avg_pool2d(x, self.grid)  # type: ignore[no-any-return]

    def transpose(self, cotangent: Tensor) -> Tensor:
        like = cotangent.new_empty(1).expand(self.shape)  # only its shape is read
        return aten._adaptive_avg_pool2d_backward(cotangent, like)  # type: ignore[no-any-return]


class Mean(Linear):
    """The mean over some dimensions."""

    def __init__(self, dims: list[int], keepdim: bool) -> None:
        self.dims, self.keepdim = dims, keepdim

    def apply(self, x: Tensor) -> Tensor:
        return torch.mean(x, self.dims, self.keepdim)

    def transpose(self, cotangent: Tensor) -> Tensor:
        if not self.keepdim:
            for dim in sorted(d % len(self.shape) for d in self.dims):
                cotangent = cotangent.unsqueeze(dim)
        count = self.shape.numel() // cotangent.numel()
        return (cotangent / count).expand(self.shape).contiguous()


def max_pool(
    x: Node, kernel: Pair, stride: Pair = (), padding: Pair = (0, 0), dilation: Pair = (1, 1), ceil: bool = False
) -> Use:
    """aten.max_pool2d_with_indices."""
    return Use(partial(MaxPool, kernel, stride or kernel, padding, dilation, ceil), (x,))


def avg_pool(
    x: Node,
    kernel: Pair,
    stride: Pair = (),
    padding: Pair = (0, 0),
    ceil: bool = False,
    count_padding: bool = True,
    divisor: int | None = None,
) -> Use:
    """aten.avg_pool2d."""
    return Use(partial(AvgPool, kernel, stride or kernel, padding, ceil, count_padding, divisor), (x,))


def adaptive_avg_pool(x: Node, grid: Pair) -> Use:
    """aten._adaptive_avg_pool2d."""
    return Use(partial(AdaptiveAvgPool, grid), (x,))


def mean(x: Node, dims: list[int] | None, keepdim: bool = False) -> Use:
    """aten.mean.dim."""
    every = list(range(x.meta["val"].ndim))
    return Use(partial(Mean, dims or every, keepdim), (x,))

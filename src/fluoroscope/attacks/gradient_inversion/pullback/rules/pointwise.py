"""Activations, sums and factors."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.fx import Node

from fluoroscope.attacks.gradient_inversion.pullback.rules.op import Inputs, Linear, Maybe, Op, Use, plus
from fluoroscope.errors import Unsupported

aten = torch.ops.aten


class Relu(Linear):
    """Piecewise linear: every sweep is cut by the same mask."""

    def forward(self, inputs: Inputs) -> Tensor:
        self.y = torch.relu(inputs[0])
        return self.y

    def apply(self, x: Tensor) -> Tensor:
        return self.transpose(x)

    def transpose(self, cotangent: Tensor) -> Tensor:
        return aten.threshold_backward(cotangent, self.y, 0)  # type: ignore[no-any-return]


class Clamp(Linear):
    """ReLU6 and hardtanh."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def forward(self, inputs: Inputs) -> Tensor:
        self.x: Tensor = inputs[0]
        return torch.clamp(self.x, self.low, self.high)

    def apply(self, x: Tensor) -> Tensor:
        return self.transpose(x)

    def transpose(self, cotangent: Tensor) -> Tensor:
        return aten.hardtanh_backward(cotangent, self.x, self.low, self.high)  # type: ignore[no-any-return]


class Sigmoid(Op):
    """y' = y (1 - y) x', and the slope's own tangent is (1 - 2 y) y'."""

    dy: Maybe = None

    def forward(self, inputs: Inputs) -> Tensor:
        self.y = torch.sigmoid(inputs[0])
        return self.y

    def backward(self, cotangent: Tensor, needs: Sequence[bool]) -> Sequence[Maybe]:
        self.cotangent = cotangent
        return (aten.sigmoid_backward(cotangent, self.y),)

    def tangent(self, tangents: Sequence[Maybe]) -> Tensor:
        self.dy = aten.sigmoid_backward(tangents[0], self.y)
        return self.dy

    def tangent_backward(self, cotangent: Maybe, needs: Sequence[bool]) -> Sequence[Maybe]:
        x = None if cotangent is None else aten.sigmoid_backward(cotangent, self.y)
        if self.dy is None:
            return (x,)
        return (plus(x, self.cotangent * self.dy * (1 - 2 * self.y)),)


class Add(Op):
    """x + factor y, of the same shape."""

    def __init__(self, factor: float = 1) -> None:
        self.factor = factor

    def forward(self, inputs: Inputs) -> Tensor:
        x, y = inputs
        return torch.add(x, y, alpha=self.factor)

    def backward(self, cotangent: Tensor, needs: Sequence[bool]) -> Sequence[Maybe]:
        return cotangent, self._times(cotangent)

    def tangent(self, tangents: Sequence[Maybe]) -> Tensor:
        x, y = tangents
        if y is None:
            assert x is not None
            return x
        return self._times(y) if x is None else torch.add(x, y, alpha=self.factor)

    def tangent_backward(self, cotangent: Maybe, needs: Sequence[bool]) -> Sequence[Maybe]:
        return cotangent, None if cotangent is None else self._times(cotangent)

    def _times(self, y: Tensor) -> Tensor:
        return y if self.factor == 1 else y * self.factor


class Affine(Linear):
    """factor x + shift, with plain numbers."""

    def __init__(self, factor: float, shift: float = 0) -> None:
        self.factor, self.shift = factor, shift

    def forward(self, inputs: Inputs) -> Tensor:
        return self.apply(inputs[0]) + self.shift

    def apply(self, x: Tensor) -> Tensor:
        return x if self.factor == 1 else x * self.factor

    def transpose(self, cotangent: Tensor) -> Tensor:
        return self.apply(cotangent)


def relu(x: Node) -> Use:
    """aten.relu."""
    return Use(Relu, (x,))


def hardtanh(x: Node, low: float = -1, high: float = 1) -> Use:
    """aten.hardtanh."""
    return Use(partial(Clamp, low, high), (x,))


def sigmoid(x: Node) -> Use:
    """aten.sigmoid."""
    return Use(Sigmoid, (x,))


def add(x: Node, y: Node | float, *, alpha: float = 1) -> Use:
    """aten.add of two tensors of one shape, or of a tensor and a number."""
    if not isinstance(y, Node):
        return Use(partial(Affine, 1, y * alpha), (x,))
    if x.meta["val"].shape != y.meta["val"].shape:
        raise Unsupported("there is no tangent rule for a sum that broadcasts.")
    return Use(partial(Add, alpha), (x, y))


def sub(x: Node, y: Node | float, *, alpha: float = 1) -> Use:
    """aten.sub."""
    return add(x, y, alpha=-alpha)


def mul(x: Node, y: Node | float) -> Use:
    """aten.mul by a number."""
    if isinstance(y, Node):
        raise Unsupported("there is no tangent rule for a product of two tensors, as in dropout or attention.")
    return Use(partial(Affine, y), (x,))


def div(x: Node, y: Node | float) -> Use:
    """aten.div by a number."""
    if isinstance(y, Node):
        raise Unsupported("there is no tangent rule for a quotient of two tensors.")
    return Use(partial(Affine, 1 / y), (x,))

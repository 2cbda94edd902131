"""Matrix products: bilinear, as a convolution is. With a first axis more, those of many problems side by side."""

from collections.abc import Sequence

from torch import Tensor
from torch.fx import Node

from fluoroscope.attacks.gradient_inversion.pullback.rules.op import Inputs, Maybe, Op, Use, plus
from fluoroscope.errors import Unsupported


class Product(Op):
    """bias + x w, of matrices."""

    dx: Maybe = None
    dweight: Maybe = None

    def forward(self, inputs: Inputs) -> Tensor:
        bias, self.x, self.weight = inputs
        y = _product(self.x, self.weight)
        self.shape = y.shape
        return y if bias is None else y + bias.unsqueeze(-2)

    def backward(self, cotangent: Tensor, needs: Sequence[bool]) -> Sequence[Maybe]:
        self.cotangent = cotangent
        bias = cotangent.sum(-2) if needs[0] else None
        x = cotangent @ self.weight.mT if needs[1] else None
        # Transposed twice: the weight comes as a transposed parameter, whose gradient is then contiguous.
        weight = _summed_over_images(cotangent, self.x).mT if needs[2] else None
        return bias, x, weight

    def tangent(self, tangents: Sequence[Maybe]) -> Tensor:
        dbias, self.dx, self.dweight = tangents
        direct = None if self.dx is None else _product(self.dx, self.weight)
        moved = plus(direct, None if self.dweight is None else _product(self.x, self.dweight))
        y = plus(moved, None if dbias is None else dbias.unsqueeze(-2))
        assert y is not None
        return y.expand(self.shape)  # a bias may have moved alone

    def tangent_backward(self, cotangent: Maybe, needs: Sequence[bool]) -> Sequence[Maybe]:
        x = weight = None
        if needs[1]:
            direct = None if cotangent is None else cotangent @ self.weight.mT
            x = plus(direct, None if self.dweight is None else self.cotangent @ self.dweight.mT)
        if needs[2]:
            direct = None if cotangent is None else self.x.mT @ cotangent
            weight = plus(direct, None if self.dx is None else self.dx.mT @ self.cotangent)
        return None, x, weight


def _product(x: Tensor, weight: Tensor) -> Tensor:
    """x w. Of one image by a transposed parameter, w' x', which reads the parameter as it lies: half of the time."""
    if x.shape[-2] == 1 and weight.mT.is_contiguous():
        return (weight.mT @ x.mT).mT
    return x @ weight


def _summed_over_images(cotangent: Tensor, x: Tensor) -> Tensor:
    """cotangent' x. Of one image it is an outer product, which costs a matrix product four times as long."""
    return cotangent.mT * x if x.shape[-2] == 1 else cotangent.mT @ x


def addmm(bias: Node, x: Node, weight: Node, *, beta: float = 1, alpha: float = 1) -> Use:
    """aten.addmm, as nn.Linear uses it."""
    if beta != 1 or alpha != 1:
        raise Unsupported("there is no tangent rule for addmm with factors.")
    return Use(Product, (bias, x, weight))


def mm(x: Node, weight: Node) -> Use:
    """aten.mm."""
    return Use(Product, (None, x, weight))

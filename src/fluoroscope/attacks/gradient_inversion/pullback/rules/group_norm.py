"""GroupNorm: a group of an image is a channel of a BatchNorm; scale and shift are by the channels themselves."""

import copy
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.fx import Node

from fluoroscope.attacks.gradient_inversion.pullback.rules.batch_norm import BatchNorm, across
from fluoroscope.attacks.gradient_inversion.pullback.rules.op import Inputs, Maybe, Op, Use, plus


class GroupNorm(Op):
    """(n, channels, ...) normalised as (1, n groups, all values of a group), then y = weight z + bias."""

    dweight: Maybe = None

    def __init__(self, groups: int, eps: float) -> None:
        self.groups, self.core = groups, BatchNorm(eps)

    def forward(self, inputs: Inputs) -> Tensor:
        x, self.weight, bias = inputs
        self.shape = x.shape
        self.z = self.core.forward((self._grouped(x), None, None)).view(self.shape)
        y = self._scaled(self.z)
        return y if bias is None else y + across(bias, y)

    def backward(self, cotangent: Tensor, needs: Sequence[bool]) -> Sequence[Maybe]:
        self.cotangent = cotangent
        dims = [0, *range(2, cotangent.ndim)]
        weight = (cotangent * self.z).sum(dims) if needs[1] else None
        bias = cotangent.sum(dims) if needs[2] else None
        x = self.core.backward(self._grouped(self._scaled(cotangent)), (True, False, False))[0]
        return None if x is None else x.view(self.shape), weight, bias

    def tangent(self, tangents: Sequence[Maybe]) -> Tensor:
        dx, self.dweight, dbias = tangents
        self.core = copy.copy(self.core)  # as this op is a copy for the tangents, so must its core be
        if dx is None:
            y = torch.zeros_like(self.z)
        else:
            y = self._scaled(self.core.tangent((self._grouped(dx), None, None)).view(self.shape))
        if self.dweight is not None:
            y = torch.addcmul(y, self.z, across(self.dweight, y))
        return y if dbias is None else y + across(dbias, y)

    def tangent_backward(self, cotangent: Maybe, needs: Sequence[bool]) -> Sequence[Maybe]:
        z = None if cotangent is None else self._scaled(cotangent)
        if self.dweight is not None:
            z = plus(z, self.cotangent * across(self.dweight, self.cotangent))
        x = self.core.tangent_backward(None if z is None else self._grouped(z), (True, False, False))[0]
        return None if x is None else x.view(self.shape), None, None

    def _scaled(self, z: Tensor) -> Tensor:
        return z if self.weight is None else z * across(self.weight, z)

    def _grouped(self, x: Tensor) -> Tensor:
        return x.reshape(1, self.shape[0] * self.groups, -1)


def group_norm(
    x: Node, weight: Node | None, bias: Node | None, n: int, channels: int, size: int, groups: int, eps: float
) -> Use:
    """aten.native_group_norm."""
    return Use(partial(GroupNorm, groups, eps), (x, weight, bias))

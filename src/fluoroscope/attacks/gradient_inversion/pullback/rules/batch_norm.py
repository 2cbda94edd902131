"""BatchNorm, by the batch's statistics or by the running ones.

With d = x - mean, i = (var + eps)^-1/2, z = d i, y = g z + b, and E the mean over a channel, in training mode:
    xbar  = g i (ybar - E ybar - z E[ybar z])
    z'    = i (x' - E x' - z E[x' z]),    i' = -i^2 E[x' z]
and differentiating xbar once more
    xbar' = g i (ybar' - E ybar' - z E[ybar' z])                 the same map of ybar'
          + (g i)' (ybar - E ybar - z E[ybar z])
          - g i (z' E[ybar z] + z E[ybar z'])
The statistics' own cotangents add mbar / n + 2 vbar d / n. All of it is fields, each times a value per channel.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.fx import Node

from fluoroscope.attacks.gradient_inversion.pullback.contract import Statistics
from fluoroscope.attacks.gradient_inversion.pullback.rules.op import Inputs, Maybe, Op, Use
from fluoroscope.errors import Unsupported

aten = torch.ops.aten


def across(values: Tensor, like: Tensor) -> Tensor:
    """A value per channel, shaped to meet (n, channels, ...)."""
    return values.view(-1, *[1] * (like.ndim - 2))


def channel_mean(field: Tensor) -> Tensor:
    """E, for every channel."""
    return field.mean([0, *range(2, field.ndim)])


def moments(field: Tensor, other: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
    """E f and factor E[f o]: what torch's BatchNorm sums in its backward pass, at once and in double precision."""
    mean, n = torch.zeros_like(factor), field.numel() // field.shape[1]
    _, product, total = aten.native_batch_norm_backward(
        field, other, None, None, None, mean, factor, True, 0.0, [False, True, True]
    )
    return total / n, product / n


def combined(constant: Maybe, *terms: tuple[Maybe, Tensor]) -> Tensor:
    """The sum of fields, each times a value per channel, and of a constant per channel."""
    (first, factor), *others = [(field, factor) for field, factor in terms if field is not None]
    total = first * across(factor, first)
    for field, factor in others:
        total.addcmul_(field, across(factor, total))
    return total if constant is None else total.add_(across(constant, total))


class BatchNorm(Op):
    """Training mode: normalises by the batch's own statistics."""

    cotangent: Maybe = None
    dx: Maybe = None
    dweight: Maybe = None
    injected: Statistics | None = None
    """The objective's derivative with respect to the statistics; enters in the last sweep."""

    def __init__(self, eps: float) -> None:
        self.eps = eps

    def forward(self, inputs: Inputs) -> Tensor:
        x, weight, bias = inputs
        self.n = x.numel() // x.shape[1]
        mean = channel_mean(x)
        self.d = x - across(mean, x)
        var = moments(self.d, self.d, torch.ones_like(mean))[1]
        self.statistics = Statistics(mean, var)
        self.i = (var + self.eps).rsqrt()
        self.gi = self.i if weight is None else weight * self.i
        self.gi2 = self.gi * self.i
        return combined(bias, (self.d, self.gi))

    def backward(self, cotangent: Tensor, needs: Sequence[bool]) -> Sequence[Maybe]:
        self.cotangent = cotangent
        self.a, self.b = moments(cotangent, self.d, self.i)
        x = None
        if needs[0]:
            x = combined(-self.gi * self.a, (cotangent, self.gi), (self.d, -self.gi2 * self.b))
        return x, self.b * self.n if needs[1] else None, self.a * self.n if needs[2] else None

    def tangent(self, tangents: Sequence[Maybe]) -> Tensor:
        self.dx, self.dweight, dbias = tangents
        self.dgi = torch.zeros_like(self.i) if self.dweight is None else self.dweight * self.i
        shift = dbias
        if self.dx is not None:
            self.e, self.q = moments(self.dx, self.d, self.i)
            self.dgi = self.dgi - self.gi2 * self.q
            shift = -self.gi * self.e if dbias is None else dbias - self.gi * self.e
        return combined(shift, (self.dx, self.gi), (self.d, self.dgi))

    def tangent_backward(self, cotangent: Maybe, needs: Sequence[bool]) -> Sequence[Maybe]:
        constant = along = torch.zeros_like(self.i)  # factors of 1 and of d
        terms: list[tuple[Maybe, Tensor]] = []
        if self.injected is not None:
            constant, along = self.injected.mean / self.n, self.injected.var * (2 / self.n)
        if cotangent is not None:
            a, b = moments(cotangent, self.d, self.i)
            constant, along = constant - self.gi * a, along - self.gi2 * b
            terms.append((cotangent, self.gi))
        if self.cotangent is not None and (self.dx is not None or self.dweight is not None):
            constant, along = constant - self.dgi * self.a, along - self.dgi * self.b * self.i
            terms.append((self.cotangent, self.dgi))
            if self.dx is not None:
                mix = (
                    moments(self.cotangent, self.dx, torch.ones_like(self.i))[1] - self.a * self.e - self.b * self.q
                )  # E[ybar z'] / i
                gi2b = self.gi2 * self.b
                constant, along = constant + gi2b * self.e, along + self.i * (gi2b * self.q - self.gi2 * mix)
                terms.append((self.dx, -gi2b))
        if not terms and self.injected is None:
            return None, None, None
        return combined(constant, (self.d, along), *terms), None, None


class FrozenBatchNorm(Op):
    """Evaluation mode: an affine map a channel, by the running statistics."""

    dweight: Maybe = None

    def __init__(self, eps: float) -> None:
        self.eps = eps

    def forward(self, inputs: Inputs) -> Tensor:
        x, weight, bias, mean, var = inputs
        self.inverse = (var + self.eps).rsqrt()
        self.scale = self.inverse if weight is None else self.inverse * weight
        self.z = (x - across(mean, x)) * across(self.inverse, x)
        y: Tensor = aten.native_batch_norm(x, weight, bias, mean, var, False, 0.0, self.eps)[0]
        return y

    def backward(self, cotangent: Tensor, needs: Sequence[bool]) -> Sequence[Maybe]:
        self.cotangent = cotangent
        n = cotangent.numel() // cotangent.shape[1]
        weight = channel_mean(cotangent * self.z) * n if needs[1] else None
        bias = channel_mean(cotangent) * n if needs[2] else None
        return cotangent * across(self.scale, cotangent), weight, bias, None, None

    def tangent(self, tangents: Sequence[Maybe]) -> Tensor:
        dx, self.dweight, dbias = tangents[:3]
        dweight = torch.zeros_like(self.scale) if self.dweight is None else self.dweight
        return combined(dbias, (dx, self.scale), (self.z, dweight))

    def tangent_backward(self, cotangent: Maybe, needs: Sequence[bool]) -> Sequence[Maybe]:
        terms = [] if cotangent is None else [(cotangent, self.scale)]
        if self.dweight is not None:
            terms.append((self.cotangent, self.dweight * self.inverse))
        return combined(None, *terms) if terms else None, None, None, None, None


def batch_norm(
    x: Node,
    weight: Node | None,
    bias: Node | None,
    running_mean: Node | None,
    running_var: Node | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Use:
    """aten.native_batch_norm."""
    if not training:
        return Use(partial(FrozenBatchNorm, eps), (x, weight, bias, running_mean, running_var))
    layer = running_mean or weight
    if layer is None:
        raise Unsupported("a BatchNorm with neither buffers nor parameters has no name to report its statistics by.")
    return Use(partial(BatchNorm, eps), (x, weight, bias), layer)

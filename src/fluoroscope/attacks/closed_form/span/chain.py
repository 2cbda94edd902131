"""One convolution back: the input h of a layer whose output, normalised and rectified, is known up to its scale."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fluoroscope.attacks.closed_form.span.feature_maps import outside
from fluoroscope.attacks.closed_form.span.layers import Layer
from fluoroscope.attacks.gradient_inversion.pullback import Statistics

ITERATIONS = 150
POSITIVE = 1e-3
"""Of the largest value: below it a feature may be the ReLU's zero."""


class Affine(NamedTuple):
    """What BatchNorm does to a channel besides the statistics."""

    weight: Tensor
    bias: Tensor
    eps: float


def before(
    layer: Layer, span: Tensor, weight: Tensor, norm: Affine, statistics: Statistics, features: Tensor
) -> tuple[Tensor, Tensor]:
    """The inputs (n, channels, h, w) of `layer` behind `features` (n, outputs, ...), and the scales of the features.

    Where a feature g is positive, norm(W h) = s g: a linear equation in h and the unknown scale s. And h's patches
    lie in `span`. Together they are least squares, solved by conjugate gradients in float64.
    """
    deviation = (statistics.var.double() + norm.eps).sqrt()
    slope = (deviation / norm.weight.double())[:, None, None]
    known = features > POSITIVE * features.flatten(1).amax(1)[:, None, None, None]
    known = known & (norm.weight != 0)[:, None, None]  # a channel that is switched off says nothing of h
    slope = torch.where((norm.weight != 0)[:, None, None], slope, 0)
    # W h = mean - slope bias + slope s g, where g > 0.
    right = (statistics.mean.double()[:, None, None] - slope * norm.bias.double()[:, None, None]) * known
    column = slope * features * known
    length = column.flatten(1).norm(dim=1)[:, None, None, None]
    column = column / length  # as long as the other columns
    size = weight.flatten(1).norm(dim=1).mean()  # W's equations as heavy as the span's

    def forward(h: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        output = F.conv2d(h, weight, None, layer.stride, layer.padding, layer.dilation)
        return outside(span, layer.patches(h)), (output * known - s * column) / size

    def transposed(patches: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
        output = output * known / size
        h = F.conv_transpose2d(output, weight, None, layer.stride, layer.padding, rest, dilation=layer.dilation)
        s = -(output * column).sum((1, 2, 3), keepdim=True)
        return layer.fold(outside(span, patches)) + h, s

    # The pixels at the lower and right edge that the stride leaves out.
    rest = [
        edge - ((grid - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1)
        for edge, grid, stride, padding, dilation, kernel in zip(
            layer.shape[1:], layer.grid, layer.stride, layer.padding, layer.dilation, layer.kernel, strict=True
        )
    ]
    shape = (len(features), *layer.shape)
    h, s = _least_squares(
        forward,
        transposed,
        (features.new_zeros(len(features), span.shape[1], layer.positions), right / size),
        (features.new_zeros(shape), features.new_zeros(len(features), 1, 1, 1)),
    )
    return h, s / length


Pair = tuple[Tensor, Tensor]


def _least_squares(
    forward: Callable[[Tensor, Tensor], Pair], transposed: Callable[[Tensor, Tensor], Pair], right: Pair, start: Pair
) -> Pair:
    """CGLS from zero (Hestenes and Stiefel 1952), each row of the batch with its own steps."""
    x, residual = start, right
    gradient = transposed(*residual)
    direction, size = gradient, _dot(gradient, gradient)
    for _ in range(ITERATIONS):
        image = forward(*direction)
        step = size / _dot(image, image).clamp_min(torch.finfo(torch.float64).tiny)
        x, residual = _plus(x, step, direction), _plus(residual, -step, image)
        gradient = transposed(*residual)
        fresh = _dot(gradient, gradient)
        direction = _plus(gradient, fresh / size.clamp_min(torch.finfo(torch.float64).tiny), direction)
        size = fresh
    return x


def _dot(a: Pair, b: Pair) -> Tensor:
    products = [(u * v).flatten(1).sum(1) for u, v in zip(a, b, strict=True)]
    return products[0] + products[1]


def _plus(a: Pair, factor: Tensor, b: Pair) -> Pair:
    first, second = (u + factor.view(-1, *[1] * (u.ndim - 1)) * v for u, v in zip(a, b, strict=True))
    return first, second

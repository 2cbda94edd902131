"""BatchNorm where every image of the batch is another client's only one: each is normalised by its own statistics.

Such images go through the network side by side, and its weights are read once for all of them. For the statistics
alone, whose sweeps leave the parameters where they are.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.fx import Node

from fluoroscope.attacks.gradient_inversion.pullback.contract import Statistics
from fluoroscope.attacks.gradient_inversion.pullback.rules import RULES, batch_norm
from fluoroscope.attacks.gradient_inversion.pullback.rules.op import Inputs, Maybe, Use


class OwnBatchNorm(batch_norm.BatchNorm):
    """A channel of an image is one of images x channels; the statistics are (images, channels)."""

    def forward(self, inputs: Inputs) -> Tensor:
        x, weight, bias = inputs
        self.shape, images = x.shape, len(x)
        each = (None if value is None else value.repeat(images) for value in (weight, bias))
        y = super().forward([self._joined(x), *each])
        self.statistics = Statistics(*(value.view(images, -1) for value in self.statistics))
        return y.view(self.shape)

    def tangent_backward(self, cotangent: Maybe, needs: Sequence[bool]) -> Sequence[Maybe]:
        if self.injected is not None:
            self.injected = Statistics(*(value.flatten() for value in self.injected))
        x, *_ = super().tangent_backward(None if cotangent is None else self._joined(cotangent), needs)
        return None if x is None else x.view(self.shape), None, None

    def _joined(self, x: Tensor) -> Tensor:
        return x.reshape(1, -1, *self.shape[2:])


def _batch_norm(
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
    use = batch_norm.batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps)
    return use._replace(make=partial(OwnBatchNorm, eps)) if training else use


OWN_RULES: Mapping[object, Callable[..., Use]] = {**RULES, torch.ops.aten.native_batch_norm.default: _batch_norm}

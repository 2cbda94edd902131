"""Measures what BatchNorm layers see, with hooks that autograd follows."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fluoroscope.attacks.gradient_inversion.pullback.contract import Statistics
from fluoroscope.errors import Unsupported


@contextmanager
def measured(model: nn.Module, at_rest: bool = False) -> Iterator[dict[str, Statistics]]:
    """While it lasts, a forward pass of `model` fills the dict: each layer that uses its batch's statistics.

    With `at_rest` those that use their running ones too: what they are given is measured all the same.
    """
    found: dict[str, Statistics] = {}

    def hook(name: str, layer: _BatchNorm, x: Tensor) -> None:
        if not (at_rest or layer.training or layer.running_mean is None):
            return
        if name in found:
            raise Unsupported(f"BatchNorm layer {name} is used twice in one pass: it has no one pair of statistics.")
        if x.numel() == x.shape[1] and not at_rest:
            raise Unsupported(
                f"BatchNorm cannot train on a batch of {len(x)} image: layer {name} is left with one value a channel. "
                "Use larger images, or a model without BatchNorm (resnet18-gn)."
            )
        var, mean = torch.var_mean(x, dim=[0, *range(2, x.ndim)], correction=0)
        found[name] = Statistics(mean, var)

    handles = [
        layer.register_forward_pre_hook(lambda layer, inputs, name=name: hook(name, layer, inputs[0]))
        for name, layer in model.named_modules()
        if isinstance(layer, _BatchNorm)
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()

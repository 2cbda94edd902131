"""BatchNorm statistics, done exactly: what a client's buffers say about its batches (spec section 3.1)."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fluoroscope.attacks.inversion.pullback.contract import Statistics
from fluoroscope.types import State


def values_a_channel(model: nn.Module, images: Tensor) -> dict[str, int]:
    """How many values each BatchNorm layer averages over for these images: images x height x width there."""
    counts: dict[str, int] = {}
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, _BatchNorm)}
    handles = [
        layer.register_forward_pre_hook(
            lambda layer, inputs, name=name: counts.update({name: inputs[0].numel() // inputs[0].shape[1]})
        )
        for name, layer in layers.items()
    ]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():  # on a copy of the buffers: a pass in training mode changes them
        torch.func.functional_call(model, state, (images,))
    for handle in handles:
        handle.remove()
    return counts


def recovered(before: State, after: State, momentum: float, counts: Mapping[str, int]) -> dict[str, Statistics]:
    """The statistics of the one batch between two states of the buffers: exact for one step (P1 eqs 3 and 4).

    s = (r_new - (1-m) r_old) / m; the running variance is unbiased, the normalisation is not. A noised buffer may
    say a variance below zero, which no batch has.
    """

    def batch(key: str) -> Tensor:
        old, new = before[key].double(), after[key].double()
        return (new - (1 - momentum) * old) / momentum

    found = {}
    for layer, count in counts.items():
        kind = after[f"{layer}.running_mean"].dtype
        mean, unbiased = batch(f"{layer}.running_mean"), batch(f"{layer}.running_var")
        found[layer] = Statistics(mean.to(kind), (unbiased * ((count - 1) / count)).clamp_min(0).to(kind))
    return found


def propagated(
    before: State, layer: str, steps: Sequence[Statistics], momentum: float, count: int
) -> tuple[Tensor, Tensor]:
    """The buffers after several steps: r_T = (1-m)^T r_0 + m sum_t (1-m)^(T-t) s_t. Differentiable in the steps."""
    mean, var = before[f"{layer}.running_mean"], before[f"{layer}.running_var"]
    for step in steps:
        mean = (1 - momentum) * mean + momentum * step.mean
        var = (1 - momentum) * var + momentum * step.var * (count / (count - 1))
    return mean, var


def mismatch(ours: Mapping[str, Statistics], theirs: Mapping[str, Statistics]) -> Tensor:
    """P1 eq. 5: the sum over layers of the norms of the differences, not squared."""
    gaps = [a - b for layer, seen in theirs.items() for a, b in zip(ours[layer], seen, strict=True)]
    return torch.stack([gap.norm() for gap in gaps]).sum()

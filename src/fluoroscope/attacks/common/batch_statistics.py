"""BatchNorm statistics, done exactly: what a client's buffers say about its batches (spec section 3.1)."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fluoroscope.attacks.gradient_inversion.pullback.contract import Statistics
from fluoroscope.types import State


def values_per_channel(model: nn.Module, images: Tensor) -> dict[str, int]:
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
    say a variance below zero, which no batch has. A layer that was withheld is left out.
    """

    def batch(key: str) -> Tensor:
        old, new = before[key].double(), after[key].double()
        return (new - (1 - momentum) * old) / momentum

    found = {}
    for layer, count in counts.items():
        if f"{layer}.running_mean" not in after:
            continue
        kind = after[f"{layer}.running_mean"].dtype
        mean, unbiased = batch(f"{layer}.running_mean"), batch(f"{layer}.running_var")
        found[layer] = Statistics(mean.to(kind), (unbiased * ((count - 1) / count)).clamp_min(0).to(kind))
    return found


def averaged(
    steps: Sequence[Mapping[str, Statistics]], images: Sequence[int], momentum: float, counts: Mapping[str, int]
) -> dict[str, Statistics]:
    """The mean of several steps' statistics as the buffers weigh them: what `recovered` reads off. Differentiable.

    r_T = (1-m)^T r_0 + m sum_t (1-m)^(T-t) s_t, and the weights m (1-m)^(T-t) add up to 1 - (1-m)^T. `images` are the
    sizes of the batches, `counts` the values per channel in the first. A smaller batch's variance counts as its
    unbiased one, as in the buffer, on the first one's scale.
    """
    weights = [momentum * (1 - momentum) ** (len(steps) - 1 - t) for t in range(len(steps))]
    weights = [weight / sum(weights) for weight in weights]
    found = {}
    for layer, first in counts.items():
        sizes = [first * n // images[0] for n in images]
        mean = [w * step[layer].mean for w, step in zip(weights, steps, strict=True)]
        var = [
            w * step[layer].var * (n / (n - 1) * (first - 1) / first)
            for w, step, n in zip(weights, steps, sizes, strict=True)
        ]
        found[layer] = Statistics(torch.stack(mean).sum(0), torch.stack(var).sum(0))
    return found


def mismatch(ours: Mapping[str, Statistics], theirs: Mapping[str, Statistics]) -> Tensor:
    """P1 eq. 5: the sum over layers of the norms of the differences, not squared."""
    gaps = [a - b for layer, seen in theirs.items() for a, b in zip(ours[layer], seen, strict=True)]
    return torch.stack([gap.norm() for gap in gaps]).sum()

"""Convolutions that hand the picture on as it is (LOKI, Zhao et al. 2024), so that a later layer can copy it."""

import torch
from torch import Tensor

from fluoroscope.defences.guard.verdict import Reason
from fluoroscope.types import State

FEWEST, SMALLEST = 4, 9
"""Kernels in a layer, and values in each."""
POINT = 0.95
"""Of a kernel's energy in its largest value."""


def passing(state: State) -> list[Reason]:
    """Refuses a first convolution of which most kernels are single points of one size and sign."""
    kernels = [(name, value) for name, value in state.items() if value.ndim == 4 and value.is_floating_point()]
    if not kernels or _pruned([value for _, value in kernels]):
        return []
    name, first = kernels[0]
    if len(first) < FEWEST or first[0].numel() < SMALLEST:
        return []
    flat = first.detach().float().flatten(1)
    energy = flat.square().sum(dim=1)
    largest, where = flat.abs().max(dim=1)
    points = (largest.square() > POINT * energy) & (energy > 0)
    values = flat[torch.arange(len(flat)), where][points]
    share = float(points.double().mean())
    if share < 0.5 or not _alike(values):
        return []
    layer = name.removesuffix(".weight")
    sentence = (
        f"{share:.0%} of the kernels of {layer} are single points: it learns nothing and hands the picture "
        "on unchanged, so that a layer behind it can copy it into the update."
    )
    return [Reason("passing", layer, "refuse", sentence, {"share of kernels that are points": share})]


def _alike(values: Tensor) -> bool:
    """Of about one size, and nearly all of one sign."""
    sizes = values.abs()
    one_sign = max(float((values > 0).double().mean()), float((values < 0).double().mean()))
    return one_sign > 0.9 and float(sizes.max()) < 1.5 * float(sizes.min())


def _pruned(kernels: list[Tensor]) -> bool:
    """Zeros everywhere, not in the first layer alone: kernels become points by pruning, too."""
    rest = kernels[1:]
    zeros = sum(int((kernel == 0).sum()) for kernel in rest)
    return bool(rest) and zeros > 0.5 * sum(kernel.numel() for kernel in rest) and not _all_points(rest)


def _all_points(kernels: list[Tensor]) -> bool:
    """Every kernel has at most one value: that is a path, not pruning."""
    return all(bool(((kernel.flatten(1) != 0).sum(dim=1) <= 1).all()) for kernel in kernels)

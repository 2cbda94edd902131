"""From an update of crafted layers to what each bin holds: sums over the images that fell into it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.attacks.imprint.craft import FIRST, Crafted
from fluoroscope.types import State

ROUNDING = 2.0**-24
"""Of float32, relative."""


@dataclass(frozen=True, eq=False)
class BinSums:
    """A row for each bin, feature after feature: the sum of c_i x_i and of c_i over its images; c_i = dL/da lr."""

    pixels: Tensor
    """(features x width, pixels); of the update's own type, as there are many."""
    coefficients: Tensor
    """(features x width,)."""
    noise: float
    """Standard deviation of an entry, as the bins show it that are below every image."""
    readable: bool
    """Whether a feature's bins show its own pixels too: beside large weights, small updates are rounded away."""


def bin_sums(crafted: Crafted, update: State) -> BinSums:
    """Differences of neighbouring neurons (P2 eq. 2); with a hard tanh, each neuron is a bin by itself."""
    bins = crafted.bins
    weight, bias = update[f"{FIRST}.weight"], update[f"{FIRST}.bias"].double()
    # The others' biases, which differ from the victim's, leave the same constant in every neuron.
    bias = bias - bias[bins.silent :].mean()
    front = crafted.network.front
    assert front is not None
    shape = (len(bins.features), bins.width, -1)
    sums = weight[: bins.silent].view(shape)
    counts = bias[: bins.silent].view(shape[:2])
    if front.activation == "relu":
        sums, counts = sums.clone(), counts.clone()
        sums[:, :-1] -= weight[: bins.silent].view(shape)[:, 1:]
        counts[:, :-1] -= bias[: bins.silent].view(shape[:2])[:, 1:]
    free = ~torch.stack([feature.support for feature in bins.features]).any(0)
    quiet = sums[:, 0, free] if free.any() else sums[:, 0]
    noise = float(quiet.double().std(1).median())
    sums, counts = sums.flatten(0, 1), counts.flatten()
    typical = counts.abs()[counts.abs() > 1e-3 * counts.abs().max()].median() if counts.any() else counts.new_ones(())
    rounding = ROUNDING * float(crafted.victim[f"{FIRST}.weight"].abs().max())
    return BinSums(sums, counts, noise, readable=rounding < 1e-3 * float(typical))

"""SAPAG's own scale of the Gaussian measure, which P4 found unstable for single images."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.attacks.gradient_inversion.distances import Layers


@dataclass(frozen=True)
class VarianceGaussian:
    """P4 eq. 4 with lambda^2 = Var(g) of each layer: sum over layers of Q (1 - exp(-|g' - g|^2 / Var(g))), Q = 1/layer.

    n times narrower than AdaptiveGaussian: far from the truth the exponential is 0, and with it the derivative.
    """

    def __call__(self, simulated: Layers, seen: Layers) -> Tensor:
        terms = []
        for layer, (a, b) in enumerate(zip(simulated, seen, strict=True), start=1):
            scale = b.var(correction=0).clamp_min(torch.finfo(b.dtype).tiny)
            terms.append(-torch.expm1(-(a - b).square().sum() / scale) / layer)
        return torch.stack(terms).sum()

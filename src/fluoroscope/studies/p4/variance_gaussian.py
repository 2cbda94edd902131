"""SAPAG's own scale of the Gaussian measure, which P4 found unstable for single images."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.attacks.gradient_inversion.distances import Layers, OfSquares, kernel


@dataclass(frozen=True)
class VarianceGaussian(OfSquares):
    """P4 eq. 4 with lambda^2 = Var(g) of each layer: sum over layers of Q (1 - exp(-|g' - g|^2 / Var(g))), Q = 1/layer.

    n times narrower than AdaptiveGaussian: far from the truth the exponential is 0, and with it the derivative.
    """

    def units(self, seen: Layers) -> Tensor:
        return torch.stack([layer.var(correction=0).clamp_min(torch.finfo(layer.dtype).tiny) for layer in seen])

    def total(self, squares: Tensor) -> Tensor:
        return kernel(squares)

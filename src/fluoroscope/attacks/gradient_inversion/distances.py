"""Distances between two updates, layer by layer. Pure and differentiable, for one problem; `vmap` makes them many.

A layer is one array of the update, counted from the input: weights and biases are arrays of their own, as in the
public code of the papers.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from fluoroscope.errors import Misconfigured
from fluoroscope.registry import Registry

Layers = Sequence[Tensor]


class Distance(Protocol):
    """How far a simulated update is from the one that was seen."""

    def __call__(self, simulated: Layers, seen: Layers) -> Tensor: ...


DISTANCES: Registry[type[Distance]] = Registry("distances")


class OfSquares(ABC):
    """A distance that is a function of each layer's squared gap, in units of what was seen."""

    def __call__(self, simulated: Layers, seen: Layers) -> Tensor:
        squares = torch.stack([_square(a, b) for a, b in zip(simulated, seen, strict=True)])
        return self.total(squares / self.units(seen))

    def units(self, seen: Layers) -> Tensor:
        """(layers,): what a squared gap is counted in."""
        return torch.ones(len(seen), dtype=seen[0].dtype, device=seen[0].device)

    @abstractmethod
    def total(self, squares: Tensor) -> Tensor:
        """Of (.., layers)."""

    def sloped(self, weight: float, squares: Tensor, units: Tensor) -> tuple[Tensor, Tensor]:
        """The weighed distances of (.., layers) squared gaps, and their derivatives by those."""
        with torch.enable_grad():
            leaf = squares.detach().requires_grad_()
            values = weight * self.total(leaf / units)
            (slopes,) = torch.autograd.grad(values.sum(), leaf)
        return values.detach(), slopes


@DISTANCES.register("squared-l2")
@dataclass(frozen=True)
class SquaredL2(OfSquares):
    """DLG; P4 eq. 3: the squared norm over all layers."""

    def total(self, squares: Tensor) -> Tensor:
        return squares.sum(-1)


@DISTANCES.register("layer-l2")
@dataclass(frozen=True)
class LayerL2(OfSquares):
    """P1 eq. 2: the sum over layers of the norm, not squared."""

    def total(self, squares: Tensor) -> Tensor:
        return _root(squares).sum(-1)


@DISTANCES.register("relative-layer-l2")
@dataclass(frozen=True)
class RelativeLayerL2(LayerL2):
    """P1 eq. 2 as a share of what it is for no update at all: 1 for a guess that says nothing.

    How long a gradient is depends on the network and on how far it is trained, and Adam's directions are longer still;
    the other terms' weights must not depend on that.
    """

    def units(self, seen: Layers) -> Tensor:
        size = _total([_root(b.square().sum()) for b in seen])
        return size.square().clamp_min(torch.finfo(seen[0].dtype).tiny).expand(len(seen))


@DISTANCES.register("cosine")
@dataclass(frozen=True)
class Cosine:
    """Inverting Gradients: 1 - cos over all layers together. Layers that were seen as exactly zero do not count.

    A convolution's bias before a train-mode BatchNorm has no gradient: what is simulated there is rounding.
    """

    def __call__(self, simulated: Layers, seen: Layers) -> Tensor:
        counts = [(b != 0).any().to(b.dtype) for b in seen]
        product = _total([(a * b).sum() for a, b in zip(simulated, seen, strict=True)])
        ours = _total([a.square().sum() * c for a, c in zip(simulated, counts, strict=True)])
        theirs = _total([b.square().sum() for b in seen])
        return 1 - product / (_root(ours) * _root(theirs))

    def pulled(self, simulated: Layers, seen: Layers) -> tuple[Tensor, list[Tensor]]:
        """The distance and its derivative, -b / (|a| |b|) + cos a / |a|^2; of the second, layers that count."""
        pairs = [(a.flatten(), b.flatten()) for a, b in zip(simulated, seen, strict=True)]
        counts = [bool((b != 0).any()) for _, b in pairs]
        product = _total([torch.dot(a, b) for a, b in pairs])
        ours = _total([torch.dot(a, a) * c for (a, _), c in zip(pairs, counts, strict=True)])
        size = _root(ours) * _root(_total([torch.dot(b, b) for _, b in pairs]))
        cosine = product / size
        along = [cosine / ours * c for c in counts]
        derivatives = [(a * k).addcmul_(b, -1 / size) for a, b, k in zip(simulated, seen, along, strict=True)]
        return 1 - cosine, derivatives


@DISTANCES.register("gaussian")
@dataclass(frozen=True)
class Gaussian(OfSquares):
    """SAPAG, P4 eq. 4 with a fixed lambda^2: sum over layers of Q (1 - exp(-|g' - g|^2 / lambda^2)), Q = 1/layer.

    P4's code has one exponential over all layers together, and that is what its tables I and III are of.
    """

    lambda2: float = 200.0
    form: Literal["paper", "code"] = "paper"

    def __post_init__(self) -> None:
        if not self.lambda2 > 0:
            raise Misconfigured(f"lambda2 must be above 0, not {self.lambda2}.")

    def total(self, squares: Tensor) -> Tensor:
        exponents = squares / self.lambda2
        return kernel(exponents if self.form == "paper" else exponents.sum(-1, keepdim=True))


@DISTANCES.register("adaptive-gaussian")
@dataclass(frozen=True)
class AdaptiveGaussian(OfSquares):
    """P4 eq. 4 and 7: lambda^2 = n Var(g) of each layer. P4's code has half of the paper's exponent."""

    form: Literal["paper", "code"] = "paper"

    def units(self, seen: Layers) -> Tensor:
        half = 2.0 if self.form == "code" else 1.0
        found = []
        for layer in seen:
            # A layer of one value, or without spread, has no variance to measure by: its size stands in.
            spread = layer.numel() * layer.var(correction=0)
            scale = torch.where(spread > 0, spread, layer.square().sum())
            found.append(half * scale.clamp_min(torch.finfo(layer.dtype).tiny))
        return torch.stack(found)

    def total(self, squares: Tensor) -> Tensor:
        return kernel(squares)


def kernel(exponents: Tensor) -> Tensor:
    """P4 eq. 4: sum over layers of (1 - exp(-exponent)) / layer."""
    layers = torch.arange(1, exponents.shape[-1] + 1, dtype=exponents.dtype, device=exponents.device)
    return -(torch.expm1(-exponents) / layers).sum(-1)  # exact where the layers already agree


def _square(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).square().sum()


def _root(value: Tensor) -> Tensor:
    """The square root, with derivative 0 instead of infinity at 0."""
    safe = torch.where(value > 0, value, torch.ones_like(value))
    return torch.where(value > 0, safe.sqrt(), torch.zeros_like(value))


def _total(terms: list[Tensor]) -> Tensor:
    return torch.stack(terms).sum()

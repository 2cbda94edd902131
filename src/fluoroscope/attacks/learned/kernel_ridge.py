"""Ridge regression in its dual form: many more features than examples, and the strength chosen across patients.

With features f_i and targets y_i, both minus their means, the primal min_W sum |W f_i - y_i|^2 + s |W|^2 has the dual
coefficients A = (K + s)^-1 Y, K_ij = f_i . f_j, and W f = sum_i A_i (f_i . f) (Saunders et al. 1998). s is a multiple
of the mean diagonal of K, so that it does not depend on the scale of the features.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

STRENGTHS = tuple(10 ** (exponent / 2) for exponent in range(-6, 5))
"""Tried by cross-validation."""
FOLDS = 5


@dataclass(frozen=True, eq=False)
class KernelRidge:
    """A fitted regression.

    Example:
        >>> import torch
        >>> features = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
        >>> fitted = fit(features, features @ torch.ones(3, 2), strength=1e-6)
        >>> bool((fitted(features) - features @ torch.ones(3, 2)).abs().max() < 1e-3)
        True
    """

    examples: Tensor
    """(n, features), as they were given."""
    centre: Tensor
    """(n,): the mean of each column of the Gram matrix."""
    coefficients: Tensor
    """(n, targets), float64; they sum to zero."""
    mean: Tensor
    """(targets,)."""

    def __call__(self, features: Tensor) -> Tensor:
        """(m, features) -> (m, targets)."""
        products = features.to(self.examples) @ self.examples.T
        return self.mean + (products.double() - self.centre) @ self.coefficients


def fit(features: Tensor, targets: Tensor, strength: float) -> KernelRidge:
    """At a given strength, relative to the mean squared length of the centred features."""
    gram = features @ features.T
    spectrum = _Spectrum(gram.double(), targets.double())
    return KernelRidge(features, spectrum.centre, spectrum.coefficients(strength), spectrum.mean)


def cross_validated(features: Tensor, targets: Tensor, groups: Sequence[str]) -> tuple[float, float]:
    """The best of STRENGTHS, and the share of the targets' variance that is left unexplained with it.

    No group stands on both sides of a fold.
    """
    gram, targets = (features @ features.T).double(), targets.double()
    fold = _folds(groups)
    left, whole = torch.zeros(len(STRENGTHS), dtype=torch.float64), 0.0
    for number in sorted(set(fold.tolist())):
        out, rest = (fold == number).nonzero().flatten(), (fold != number).nonzero().flatten()
        spectrum = _Spectrum(gram[rest][:, rest], targets[rest])
        products = gram[out][:, rest] - spectrum.centre
        gaps = targets[out] - spectrum.mean
        whole += float(gaps.square().sum())
        for i, strength in enumerate(STRENGTHS):
            left[i] += (gaps - products @ spectrum.coefficients(strength)).square().sum()
    best = int(left.argmin())
    return STRENGTHS[best], float(left[best]) / max(whole, 1e-300)


class _Spectrum:
    """The centred Gram matrix, taken apart once for all strengths."""

    def __init__(self, gram: Tensor, targets: Tensor) -> None:
        self.centre, self.mean = gram.mean(0), targets.mean(0)
        rows = gram - self.centre
        centred = rows - rows.mean(1, keepdim=True)
        self._values, self._vectors = torch.linalg.eigh(centred)
        self._scale = centred.diagonal().mean()
        self._turned = self._vectors.T @ (targets - self.mean)

    def coefficients(self, strength: float) -> Tensor:
        found: Tensor = self._vectors @ (self._turned / (self._values.clamp_min(0) + strength * self._scale)[:, None])
        return found - found.mean(0)  # exact arithmetic would leave nothing of the constant


def _folds(groups: Sequence[str]) -> Tensor:
    """(n,): a group's number modulo FOLDS, in the order in which the groups come."""
    numbers: dict[str, int] = {}
    for group in groups:
        numbers.setdefault(group, len(numbers))
    return torch.tensor([numbers[group] % min(FOLDS, len(numbers)) for group in groups])

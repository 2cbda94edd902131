"""Kernel ridge regression with its strength and its evidence chosen by cross-validation over patients."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import torch
from torch import Tensor, nn

STRENGTHS = tuple(10 ** (exponent / 2) for exponent in range(-8, 5))
"""Of the ridge, in units of the kernel's mean diagonal. Beyond the largest there is only the mean image."""


class Scaling(Protocol):
    """Brings one kind of evidence, (n, values), to a common size."""

    def __call__(self, evidence: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Deviations:
    """Each value by its own deviation, so that a client is of length 1 in the mean."""

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, evidence: Tensor) -> "Deviations":
        return cls(evidence.double().mean(0), _deviation(evidence))

    def __call__(self, evidence: Tensor) -> Tensor:
        return (evidence.double() - self.mean) / (self.deviation * math.sqrt(len(self.mean)))


@dataclass(frozen=True, eq=False)
class Directions:
    """The direction of a change alone, turned to one side.

    A gradient is the image's own pattern times how wrong the model was on it: that factor says little of the image, and
    its sign is that of the label. The side is that of the direction in which changes differ most.
    """

    deviation: Tensor
    reference: Tensor
    mean: Tensor

    @classmethod
    def of(cls, evidence: Tensor) -> "Directions":
        deviation = _deviation(evidence)
        units = _units(evidence.double() / deviation)
        leading = torch.linalg.eigh(units @ units.T).eigenvectors[:, -1] @ units
        turned = units * torch.sign(units @ leading)[:, None]
        return cls(deviation, leading, turned.mean(0))

    def __call__(self, evidence: Tensor) -> Tensor:
        units = _units(evidence.double() / self.deviation)
        return units * torch.sign(units @ self.reference)[:, None] - self.mean


def _deviation(evidence: Tensor) -> Tensor:
    """Per value. One that never moves says nothing, and its rounding must not be blown up."""
    deviation = evidence.double().std(0)
    return torch.where(deviation > 0, deviation, torch.inf)


def _units(rows: Tensor) -> Tensor:
    return nn.functional.normalize(rows, dim=1)


@dataclass(frozen=True, eq=False)
class Ridge:
    """Maps evidence to targets: the mean of the targets, and what the evidence adds to it."""

    mean: Tensor
    kinds: tuple[str, ...]
    scalings: Mapping[str, Scaling]
    evidence: Tensor
    """(n, values): what was learned from, scaled."""
    weights: Tensor
    """(n, outputs), the dual solution."""
    strength: float
    error: float
    """Of cross-validation, as a share of the error of the mean alone: 1 or more shows that nothing was learned."""

    @classmethod
    def fit(
        cls, evidence: Mapping[str, Tensor], scalings: Mapping[str, Scaling], targets: Tensor, folds: Tensor
    ) -> "Ridge":
        """Learn from (n, values) per kind of evidence to (n, outputs), `folds` (n,) being held out in turn.

        The kinds that are learned from, alone or together, and the strength are those that do best when held out.

        Example:
            >>> import torch
            >>> x = torch.linspace(-1, 1, 40)[:, None]
            >>> learned = Ridge.fit({"x": x}, {"x": Deviations.of(x)}, 2 * x + 1, torch.arange(40) % 5)
            >>> round(float(learned.predict({"x": torch.tensor([[0.5]])})), 2)
            2.0
        """
        scaled = {kind: scalings[kind](values) for kind, values in evidence.items()}
        targets = targets.double()
        products = targets @ targets.T
        tried = []
        for kinds in _subsets(tuple(evidence)):
            inputs = torch.cat([scaled[kind] for kind in kinds], 1)
            errors = held_out_errors(inputs @ inputs.T, products, folds, STRENGTHS)
            best = int(errors.argmin())
            tried.append((float(errors[best]), kinds, STRENGTHS[best], inputs))
        error, kinds, strength, inputs = min(tried, key=lambda each: each[0])
        mean, kernel = targets.mean(0), inputs @ inputs.T
        ridge = strength * float(kernel.diagonal().mean()) * torch.eye(len(kernel), dtype=kernel.dtype)
        weights = torch.linalg.solve(kernel + ridge, targets - mean)
        return cls(mean, kinds, scalings, inputs, weights, strength, error / _error_of_the_mean(products, folds))

    def held_out(self, targets: Tensor, folds: Tensor) -> Tensor:
        """(n, outputs): what would have been predicted for each, had its fold not been learned from."""
        targets, kernel = targets.double(), self.evidence @ self.evidence.T
        ridge = self.strength * float(kernel.diagonal().mean())
        found = torch.empty_like(targets)
        for fold in torch.unique(folds):
            out = folds == fold
            learned = kernel[~out][:, ~out]
            mean = targets[~out].mean(0)
            weights = torch.linalg.solve(learned + ridge * torch.eye(len(learned)).to(learned), targets[~out] - mean)
            found[out] = kernel[out][:, ~out] @ weights + mean
        return found

    def predict(self, evidence: Mapping[str, Tensor]) -> Tensor:
        """(m, outputs) for (m, values) per kind of evidence."""
        scaled = torch.cat([self.scalings[kind](evidence[kind]) for kind in self.kinds], 1)
        return scaled @ self.evidence.T @ self.weights + self.mean


def held_out_errors(kernel: Tensor, products: Tensor, folds: Tensor, strengths: Sequence[float]) -> Tensor:
    """The summed squared error over all held-out targets, per strength.

    Only the targets' inner products are asked for: a prediction is W Y of the targets Y that were learned from, so its
    error is tr(Y* Y*') - 2 tr(W Y Y*') + tr(W Y Y' W'), whatever the size of an image.
    """
    errors = torch.zeros(len(strengths), dtype=kernel.dtype)
    scale = kernel.diagonal().mean()
    for fold in torch.unique(folds):
        out = folds == fold
        learned = ~out
        values, vectors = torch.linalg.eigh(kernel[learned][:, learned])
        onto = kernel[out][:, learned] @ vectors
        gram, cross = products[learned][:, learned], products[learned][:, out]
        count = int(learned.sum())
        for i, strength in enumerate(strengths):
            weights = onto / (values + strength * scale) @ vectors.T
            weights = weights + (1 - weights.sum(1, keepdim=True)) / count  # about the mean of what was learned from
            error = products[out][:, out].trace() - 2 * (weights * cross.T).sum() + ((weights @ gram) * weights).sum()
            errors[i] += error
    return errors


def _error_of_the_mean(products: Tensor, folds: Tensor) -> float:
    """The same where every prediction is the mean of what was learned from."""
    error = 0.0
    for fold in torch.unique(folds):
        out = folds == fold
        centre = products[~out][:, ~out].mean()  # the squared length of that mean
        error += float(products.diagonal()[out].sum() - 2 * products[~out][:, out].mean(0).sum() + out.sum() * centre)
    return error


def _subsets(kinds: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [each for size in range(1, len(kinds) + 1) for each in combinations(kinds, size)]

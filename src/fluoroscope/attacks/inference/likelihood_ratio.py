"""LiRA's statistics (Carlini et al., S&P 2022): a record's own confidence with and without it in training."""

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from fluoroscope.attacks.inference.seen_model import SeenModel
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.types import LabelledImages

_LEAST_DEVIATION = 1e-6
"""Shadows that agree on a record to the last digit say nothing of its spread."""


@dataclass(frozen=True, eq=False)
class Shadows:
    """What shadow models make of the candidates."""

    confidences: Tensor
    """(shadows, candidates), float64."""
    inside: Tensor
    """(shadows, candidates), bool: which candidates the attacker put into which training."""


def confidence(outputs: Tensor, labels: Tensor) -> Tensor:
    """log(p / (1 - p)) of the true class (Carlini et al. section IV-C), (n,) from logits (n, classes), in float64.

    log p - log(1 - p) is the class's logit minus the log-sum-exp of the others: nothing is lost where p rounds to 1.
    """
    if outputs.shape[1] < 2:
        raise Misconfigured("a network with one class is always sure of it: the likelihood ratio needs two or more.")
    outputs, own = outputs.double(), labels[:, None]
    others = outputs.scatter(1, own, -torch.inf)
    return outputs.gather(1, own)[:, 0] - others.logsumexp(1)


def confidences(model: SeenModel, candidates: LabelledImages) -> Tensor:
    """Of each candidate under a model, (n,)."""
    if candidates.labels.ndim != 1:
        raise Unsupported(
            f"the likelihood ratio is of one true class per image, and the labels have the shape "
            f"{tuple(candidates.labels.shape)}; for several findings per image use the attack 'loss'."
        )
    return confidence(model.logits(candidates), candidates.labels.cpu())


def online(observed: Tensor, shadows: Shadows, pooled: bool = True) -> Tensor:
    """log N(observed; in) - log N(observed; out) of each candidate (Carlini et al. algorithm 1), (n,).

    `pooled` takes one variance of all candidates for in and one for out: for fewer than about 64 shadows.
    """
    inside, outside = (_Gaussian.fitted(shadows, chosen, pooled) for chosen in (shadows.inside, ~shadows.inside))
    return inside.log_density(observed) - outside.log_density(observed)


def offline(observed: Tensor, shadows: Shadows, pooled: bool = True) -> Tensor:
    """How far above the models that were trained without it, in standard deviations, (n,).

    Carlini et al. eq. 4 is the normal distribution's mass below it: the same order, but it rounds to 1 where this
    does not.
    """
    return _Gaussian.fitted(shadows, ~shadows.inside, pooled).standardised(observed)


@dataclass(frozen=True, eq=False)
class _Gaussian:
    """One for each candidate."""

    mean: Tensor
    deviation: Tensor

    @classmethod
    def fitted(cls, shadows: Shadows, chosen: Tensor, pooled: bool) -> Self:
        count = chosen.sum(0)
        if int(count.min()) < 2:
            raise Misconfigured(
                f"a candidate has {int(count.min())} shadow models of one kind, and a spread needs 2; train more "
                "shadows, with each candidate in half of them."
            )
        mean = torch.where(chosen, shadows.confidences, 0.0).sum(0) / count
        squares = torch.where(chosen, shadows.confidences - mean, 0.0).square()
        # One mean was taken from each candidate's values: so many fewer are free.
        variance = (squares.sum() / (count - 1).sum()).expand_as(mean) if pooled else squares.sum(0) / (count - 1)
        return cls(mean, variance.sqrt().clamp_min(_LEAST_DEVIATION))

    def standardised(self, values: Tensor) -> Tensor:
        return (values - self.mean) / self.deviation

    def log_density(self, values: Tensor) -> Tensor:
        return -self.standardised(values).square() / 2 - self.deviation.log() - math.log(2 * math.pi) / 2

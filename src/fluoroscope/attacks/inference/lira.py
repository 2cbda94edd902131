"""The likelihood-ratio attack (Carlini et al., S&P 2022): a record's own confidence with and without it in training."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.attacks.inference.losses import logits
from fluoroscope.errors import Misconfigured
from fluoroscope.types import Architecture, Records, State

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


def confidences(architecture: Architecture, state: State, candidates: Records) -> Tensor:
    """Of each candidate under a model, (n,)."""
    return confidence(logits(architecture, state, candidates), candidates.labels.cpu())


def online(observed: Tensor, shadows: Shadows, pooled: bool = True) -> Tensor:
    """log N(observed; in) - log N(observed; out) of each candidate (Carlini et al. algorithm 1), (n,).

    `pooled` takes one variance of all candidates for in and one for out: for fewer than about 64 shadows.
    """
    inside, outside = _gaussian(shadows, shadows.inside, pooled), _gaussian(shadows, ~shadows.inside, pooled)
    ratio: Tensor = inside.log_prob(observed) - outside.log_prob(observed)
    return ratio


def offline(observed: Tensor, shadows: Shadows, pooled: bool = True) -> Tensor:
    """How far above the models that were trained without it, in standard deviations, (n,).

    Carlini et al. eq. 4 is the normal distribution's mass below it: the same order, but it rounds to 1 where this
    does not.
    """
    outside = _gaussian(shadows, ~shadows.inside, pooled)
    return (observed - outside.mean) / outside.stddev


def _gaussian(shadows: Shadows, chosen: Tensor, pooled: bool) -> torch.distributions.Normal:
    count = chosen.sum(0)
    if int(count.min()) < 2:
        raise Misconfigured(
            f"a candidate has {int(count.min())} shadow models of one kind, and a spread needs 2; train more shadows, "
            "with each candidate in half of them."
        )
    kept = torch.where(chosen, shadows.confidences, 0.0)
    mean = kept.sum(0) / count
    squares = torch.where(chosen, shadows.confidences - mean, 0.0).square()
    # One mean was taken from each candidate's values: so many fewer are free.
    variance = (squares.sum() / (count - 1).sum()).expand_as(mean) if pooled else squares.sum(0) / (count - 1)
    return torch.distributions.Normal(mean, variance.sqrt().clamp_min(_LEAST_DEVIATION))

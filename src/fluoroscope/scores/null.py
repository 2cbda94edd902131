"""What chance gives: every guess scored against its own patient, and against the others.

A decoded X-ray is nearer to any X-ray than the mean of all is, so that a score above the prior accuses nobody. A leak
is what a guess gains on its *own* victim's images over what it gains on the others'.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.errors import BadInput
from fluoroscope.scores.intervals import Interval, bootstrap_mean, wilson
from fluoroscope.scores.rdlv import LEAST_PRIOR_SIMILARITY
from fluoroscope.scores.similarity import ssim, ssim_matrix

PERMUTATIONS = 2000


@dataclass(frozen=True, eq=False)
class AgainstOthers:
    """Guesses about some victims beside what the same guesses reach on other patients."""

    own: Interval
    """RDLV (P1 eq. 6) against the own victim's images."""
    null: Interval
    """RDLV of the same guesses against everybody else's."""
    leak: Interval
    """own - null, victim by victim."""
    p_value: float
    """How often a random assignment of guesses to victims scores as high as the true one."""
    told_apart: Interval
    """Share of the guesses whose nearest original of all (SSIM) is their own victim's."""
    chance: float
    """The same for guesses that show nothing."""
    found: tuple[Tensor, ...]
    """Per victim (images,), bool: the originals that some guess about this victim is nearest to, of everybody's."""


def against_others(
    guesses: Sequence[Tensor],
    originals: Sequence[Tensor],
    public_mean: Tensor,
    rng: torch.Generator,
    others: Sequence[Tensor] = (),
) -> AgainstOthers:
    """Score guesses against the victims that they are about, and against all the others.

    Args:
        guesses: per victim, the reconstructed images (n, channels, height, width).
        originals: per victim, its images.
        public_mean: the attacker's prior, which RDLV is relative to.
        rng: of the bootstrap and the permutations.
        others: images of further patients, a set each, about whom nothing was guessed: a single victim needs them.

    Raises:
        BadInput: there is nobody to compare with, or counts differ.

    Example:
        >>> import torch
        >>> images = torch.rand(6, 1, 1, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> exact = against_others(list(images), list(images), images.mean((0, 1)), torch.Generator())
        >>> exact.told_apart.mean, round(exact.chance, 3)
        (1.0, 0.167)
    """
    sets = [*originals, *others]
    if len(guesses) != len(originals) or not guesses:
        raise BadInput(f"{len(guesses)} victims' guesses need as many victims' images, not {len(originals)}.")
    if len(sets) < 2:
        raise BadInput("one victim alone cannot be told apart from anybody: give images of other patients too.")
    images, counts = [len(each) for each in sets], [len(guess) for guess in guesses]
    pool = torch.cat(sets)
    # One matrix for all: its cost hardly grows with the number of images.
    likeness = ssim_matrix(torch.cat([guess.to(pool) for guess in guesses]), pool)
    prior_likeness = ssim(pool, public_mean.to(pool).expand_as(pool))
    # (victims, sets): the mean RDLV of a victim's guesses against each set of images.
    gains = _gains(torch.split(likeness, images, 1), torch.split(prior_likeness, images))
    table = torch.stack([each.nanmean(0).nan_to_num(0.0) for each in torch.split(gains, counts)])
    victims = range(len(guesses))
    own = table[victims, victims]
    null = (table.sum(1) - own) / (len(sets) - 1)
    nearest = [_nearest(each, images) for each in torch.split(likeness, counts)]
    right = sum(int((whose == v).sum()) for v, (whose, _) in zip(victims, nearest, strict=True))
    count = sum(counts)
    return AgainstOthers(
        own=bootstrap_mean(own, rng),
        null=bootstrap_mean(null, rng),
        leak=bootstrap_mean(own - null, rng),
        p_value=_p_value(table, rng),
        told_apart=wilson(right, count),
        chance=sum(counts[v] * images[v] for v in victims) / (count * sum(images)),
        found=tuple(
            torch.isin(torch.arange(images[v]), which[whose == v])
            for v, (whose, which) in zip(victims, nearest, strict=True)
        ),
    )


def _gains(likeness: Sequence[Tensor], prior_likeness: Sequence[Tensor]) -> Tensor:
    """(guesses, sets): P1 eq. 6 against the image of each set that is nearest to the guess.

    A guess that is no image any more gains what a SSIM of 0 would. NaN where the prior is too unlike that image.
    """
    found = []
    for each, prior in zip(likeness, prior_likeness, strict=True):
        best, which = each.double().nan_to_num(0.0).max(1)
        at = prior.double()[which]
        found.append(((best - at) / at).where(at >= LEAST_PRIOR_SIMILARITY, math.nan))
    return torch.stack(found, 1)


def _nearest(likeness: Tensor, images: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Per guess: whose image is nearest of all, and which of theirs. -1 for one that is no image any more."""
    best, place = likeness.nan_to_num(-math.inf).max(1)
    ends = torch.tensor(images).cumsum(0)
    whose = torch.searchsorted(ends, place, right=True)
    return whose.masked_fill(best == -math.inf, -1), place - (ends - torch.tensor(images))[whose]


def _p_value(table: Tensor, rng: torch.Generator) -> float:
    """One-sided, by random assignments of each victim's guesses to another set of images, no set twice."""
    victims, sets = table.shape
    seen = float(table[range(victims), range(victims)].sum())
    drawn = torch.rand((PERMUTATIONS, sets), generator=rng).argsort(1)[:, :victims]
    random = table[torch.arange(victims), drawn].sum(1)
    reached = int((random >= seen - 1e-12).sum())
    return (1 + reached) / (1 + PERMUTATIONS)

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
from fluoroscope.scores.rdlv import rdlv
from fluoroscope.scores.similarity import ssim_matrix

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
    # (victims, sets): the mean RDLV of a victim's guesses against each set of images.
    table = torch.stack([torch.stack([_gain(guess, each, public_mean) for each in sets]) for guess in guesses])
    victims = range(len(guesses))
    own = table[victims, victims]
    null = (table.sum(1) - own) / (len(sets) - 1)
    nearest = [_nearest(guess, sets) for guess in guesses]
    images = [len(each) for each in sets]
    right = sum(int((whose == v).sum()) for v, (whose, _) in zip(victims, nearest, strict=True))
    count = sum(len(guess) for guess in guesses)
    return AgainstOthers(
        own=bootstrap_mean(own, rng),
        null=bootstrap_mean(null, rng),
        leak=bootstrap_mean(own - null, rng),
        p_value=_p_value(table, rng),
        told_apart=wilson(right, count),
        chance=sum(len(guess) * images[v] for v, guess in zip(victims, guesses, strict=True)) / (count * sum(images)),
        found=tuple(
            torch.isin(torch.arange(images[v]), which[whose == v])
            for v, (whose, which) in zip(victims, nearest, strict=True)
        ),
    )


def _gain(guess: Tensor, images: Tensor, public_mean: Tensor) -> Tensor:
    """Mean RDLV; a guess that is no image any more gains what a SSIM of 0 would, and undefined ones do not count."""
    found = rdlv(guess, images, public_mean)
    broken = found.similarity.isnan()
    return torch.where(broken, -1.0, found.values.double()).nanmean().nan_to_num(0.0)


def _nearest(guess: Tensor, sets: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Per guess: whose image is nearest of all, and which of theirs. -1 for one that is not an image any more."""
    matrices = [ssim_matrix(guess, each).nan_to_num(-math.inf) for each in sets]
    best = torch.stack([matrix.max(1).values for matrix in matrices], 1)
    whose = best.argmax(1)
    which = torch.stack([matrix.argmax(1) for matrix in matrices], 1)[torch.arange(len(guess)), whose]
    lost = best.max(1).values == -math.inf
    return whose.masked_fill(lost, -1), which


def _p_value(table: Tensor, rng: torch.Generator) -> float:
    """One-sided, by random assignments of each victim's guesses to another set of images, no set twice."""
    victims, sets = table.shape
    seen = float(table[range(victims), range(victims)].sum())
    drawn = torch.rand((PERMUTATIONS, sets), generator=rng).argsort(1)[:, :victims]
    random = table[torch.arange(victims), drawn].sum(1)
    reached = int((random >= seen - 1e-12).sum())
    return (1 + reached) / (1 + PERMUTATIONS)

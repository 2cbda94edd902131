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
from fluoroscope.scores.permutations import PERMUTATIONS, permutation_p_value
from fluoroscope.scores.rdlv import LEAST_PRIOR_SIMILARITY
from fluoroscope.scores.similarity import ssim_matrix

LINE_UP = 4
"""Patients in a line-up. Of all n patients a guess that shows nothing picks the right one once in n, and n guesses can
never show that it does so at most twice in n. In line-ups of four a few victims can."""
_NUMBERS_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class AgainstOthers:
    """Guesses about some victims beside what the same guesses reach on other patients."""

    own: Interval
    """RDLV (P1 eq. 6) against the own victim's images."""
    null: Interval
    """RDLV of the same guesses against everybody else's."""
    leak: Interval
    """own - null, victim by victim; of a single victim guess by guess."""
    p_value: float
    """How often a random assignment of guesses to victims scores as high as the true one; of a single victim, a random
    choice of as many images from everybody's."""
    told_apart: Interval
    """Share of the guesses whose nearest original of all (SSIM) is their own victim's."""
    chance: float
    """The same for guesses that show nothing."""
    line_up: Interval
    """Share of the line-ups, the own victim and LINE_UP - 1 others, of which the own one's images are nearest."""
    line_up_chance: float
    """The same for guesses that show nothing, where the sets have one size."""
    found: tuple[Tensor, ...]
    """Per victim (images,), bool: the originals that some guess about this victim is nearest to, of everybody's."""

    def numbers(self) -> dict[str, float]:
        """By the names that a study's rows have."""
        return {
            "leak": self.leak.mean,
            "leak_low": self.leak.low,
            "leak_high": self.leak.high,
            "rdlv": self.own.mean,
            "rdlv_others": self.null.mean,
            "p_value": self.p_value,
            "told_apart": self.told_apart.mean,
            "chance": self.chance,
        }


def against_others(
    guesses: Sequence[Tensor],
    originals: Sequence[Tensor],
    public_mean: Tensor,
    rng: torch.Generator,
    others: Sequence[Tensor] = (),
    gave_up: Sequence[bool] = (),
    level: float = 0.95,
) -> AgainstOthers:
    """Score guesses against the victims that they are about, and against all the others.

    Args:
        guesses: per victim, the reconstructed images (n, channels, height, width).
        originals: per victim, its images.
        public_mean: the attacker's prior, which RDLV is relative to.
        rng: of the bootstrap and the permutations.
        others: images of further patients, a set each, about whom nothing was guessed: a single victim needs them.
        gave_up: per victim, whether the attack had nothing to say: the guess is then the prior, and tells nobody apart.
        level: of the leak's interval, higher for whoever takes the best of several attacks.

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
    silent = gave_up or [False] * len(guesses)
    if not len(guesses) == len(originals) == len(silent) or not guesses:
        raise BadInput(f"{len(guesses)} victims' guesses need as many victims' images, not {len(originals)}.")
    if len(sets) < 2:
        raise BadInput("one victim alone cannot be told apart from anybody: give images of other patients too.")
    compared = _compared(
        [public_mean.expand_as(g) if quiet else g for g, quiet in zip(guesses, silent, strict=True)],
        sets,
        public_mean,
        silent,
    )
    # Of several victims each is one case, whatever the number of its images; a single one has its guesses alone.
    alone = len(compared) == 1
    own, null, picked = (
        torch.cat(parts) if alone else torch.stack([part.nanmean().nan_to_num(0.0) for part in parts])
        for parts in zip(*((each.own, each.null, each.line_up) for each in compared), strict=True)
    )
    defined = ~(own - null).isnan()
    images = [len(each) for each in sets]
    guessed = [len(guess) for guess in guesses]
    return AgainstOthers(
        own=bootstrap_mean(own[defined], rng),
        null=bootstrap_mean(null[defined], rng),
        leak=bootstrap_mean((own - null)[defined], rng, level=level),
        p_value=_p_of_images(compared[0], rng) if alone else _p_of_victims(compared, rng),
        told_apart=wilson(sum(int((each.whose == v).sum()) for v, each in enumerate(compared)), sum(guessed)),
        chance=sum(n * images[v] for v, n in enumerate(guessed)) / (sum(guessed) * sum(images)),
        line_up=bootstrap_mean(picked, rng),
        line_up_chance=1 / min(LINE_UP, len(sets)),
        found=tuple(
            torch.isin(torch.arange(images[v]), each.which[each.whose == v]) for v, each in enumerate(compared)
        ),
    )


@dataclass(frozen=True, eq=False)
class _Compared:
    """One victim's guesses (g,) beside everybody's images (all,)."""

    victim: int
    belongs: Tensor
    """(all,): the set that each image is of."""
    similarity: Tensor
    """(g, all): SSIM; minus infinity for a guess that is no image any more."""
    prior_similarity: Tensor
    """(all,)."""
    gains: Tensor
    """(g, sets): RDLV; -1 for a guess that is no image, as a SSIM of 0 would give; NaN where it is undefined."""
    silent: bool

    @property
    def own(self) -> Tensor:
        """(g,)"""
        return self.gains[:, self.victim]

    @property
    def null(self) -> Tensor:
        """(g,): the mean over the others."""
        return torch.cat([self.gains[:, : self.victim], self.gains[:, self.victim + 1 :]], 1).nanmean(1)

    @property
    def whose(self) -> Tensor:
        """(g,): whose image is nearest of all; -1 for a guess that shows nothing."""
        lost = self.similarity.max(1).values == -math.inf
        return self.belongs[self.similarity.argmax(1)].masked_fill(lost | self.silent, -1)

    @property
    def which(self) -> Tensor:
        """(g,): the place of that image among its patient's."""
        nearest = self.similarity.argmax(1)
        first = torch.stack([(self.belongs == each).int().argmax() for each in self.belongs[nearest]])
        return nearest - first

    @property
    def line_up(self) -> Tensor:
        """(g,): how many of all line-ups are won, ties shared; as chance has it for a guess that shows nothing."""
        sets = self.gains.shape[1]
        best = torch.stack([self.similarity[:, self.belongs == each].max(1).values for each in range(sets)], 1)
        mine = best[:, self.victim, None]
        nearer, level = (best > mine).sum(1), (best == mine).sum(1) - 1
        won = [_won(sets - 1, int(b), int(e)) for b, e in zip(nearer, level, strict=True)]
        lost = (mine[:, 0] == -math.inf) | self.silent
        return torch.tensor(won, dtype=torch.float64).masked_fill(lost, 1 / min(LINE_UP, sets))


def _compared(
    guesses: Sequence[Tensor], sets: Sequence[Tensor], public_mean: Tensor, silent: Sequence[bool]
) -> list[_Compared]:
    belongs = torch.repeat_interleave(torch.arange(len(sets)), torch.tensor([len(each) for each in sets]))
    # The prior in the same pass as the guesses, so that its own gain is 0 and not the difference of two methods.
    everybody = torch.cat(list(sets))
    pictures = torch.cat([each.to(everybody) for each in (*guesses, public_mean[None])])
    *found, prior = torch.split(ssim_matrix(pictures, everybody).double(), [*map(len, guesses), 1])
    made = []
    for victim, (values, quiet) in enumerate(zip(found, silent, strict=True)):
        similarity = values.nan_to_num(-math.inf)
        gains = _gains(similarity, prior[0], belongs == torch.arange(len(sets))[:, None]).T
        made.append(_Compared(victim, belongs, similarity, prior[0], gains, quiet))
    return made


def _gains(similarity: Tensor, prior: Tensor, among: Tensor) -> Tensor:
    """RDLV (P1 eq. 6) of each guess (g,), where the images `among` (..., all) are the client's: (..., g)."""
    near, nearest = similarity.where(among[..., None, :], -math.inf).max(-1)
    before = prior[nearest]
    ratio = ((near - before) / before).where(before >= LEAST_PRIOR_SIMILARITY, math.nan)
    return ratio.where(near > -math.inf, -1.0)


def _won(others: int, nearer: int, level: int) -> float:
    """The share of line-ups without anybody nearer; who is level shares the win. In closed form over all of them."""
    places = min(LINE_UP - 1, others)
    farther = others - nearer - level
    ways = sum(math.comb(level, j) * math.comb(farther, places - j) / (j + 1) for j in range(places + 1))
    return ways / math.comb(others, places)


def _p_of_victims(compared: Sequence[_Compared], rng: torch.Generator) -> float:
    """One-sided, by random assignments of each victim's guesses to another set of images, no set twice."""
    table = torch.stack([each.gains.nanmean(0).nan_to_num(0.0) for each in compared])
    victims, sets = table.shape
    drawn = torch.rand((PERMUTATIONS, sets), generator=rng).argsort(1)[:, :victims]
    return _reached(table[torch.arange(victims), drawn].sum(1), table[range(victims), range(victims)].sum())


def _p_of_images(one: _Compared, rng: torch.Generator) -> float:
    """One-sided, by random choices of as many images as the victim has, from its own and the others' together.

    Whole sets in its place would be too few: a test set may hold two of the size of a large client.
    """
    everybody, count = len(one.belongs), int((one.belongs == one.victim).sum())
    drawn = torch.rand((PERMUTATIONS, everybody), generator=rng).argsort(1).argsort(1) < count
    some = torch.split(drawn, max(1, _NUMBERS_AT_ONCE // one.similarity.numel()))
    random = torch.cat([_gains(one.similarity, one.prior_similarity, each).nanmean(1) for each in some])
    return _reached(random.nan_to_num(0.0), one.own.nanmean().nan_to_num(0.0))


def _reached(random: Tensor, seen: Tensor) -> float:
    return permutation_p_value(int((random >= seen - 1e-12).sum()))

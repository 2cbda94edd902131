"""How well the class mix of a client was guessed: against guessing the public mix, and against other clients' mixes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.errors import BadInput
from fluoroscope.scores.intervals import Interval, bootstrap_mean
from fluoroscope.scores.permutations import PERMUTATIONS, permutation_p_value


@dataclass(frozen=True, eq=False)
class MixScore:
    """Guessed shares of the classes beside what the attacker knows without an update."""

    error: Interval
    """Mean absolute error of a class's share."""
    public: Interval
    """The same of the shares among public images."""
    gain: Interval
    """public - error, case by case."""
    p_value: float
    """How often guesses that are dealt at random among the cases of their group are as near to the truth."""


def score_mixes(guesses: Tensor, truth: Tensor, public: Tensor, groups: Tensor, rng: torch.Generator) -> MixScore:
    """Score guessed shares (n, classes) against the true ones.

    Args:
        guesses: a row per case.
        truth: the same.
        public: the shares among public images, (classes,).
        groups: (n,): cases that could be exchanged, as those of one client's size and training.
        rng: of the bootstrap and the permutations.

    Example:
        >>> import torch
        >>> truth = torch.tensor([[1.0, 0.0], [0.2, 0.8], [0.5, 0.5], [0.0, 1.0], [0.8, 0.2]])
        >>> even, alike = torch.tensor([0.5, 0.5]), torch.zeros(5)
        >>> found = score_mixes(truth, truth, even, alike, torch.Generator().manual_seed(0))
        >>> found.error.mean, round(found.gain.mean, 2), found.p_value < 0.05
        (0.0, 0.32, True)
    """
    if guesses.shape != truth.shape or len(guesses) != len(groups) or not len(guesses):
        raise BadInput(
            f"guesses of shape {tuple(guesses.shape)} need as many true shares and groups, not "
            f"{tuple(truth.shape)} and {len(groups)}."
        )
    guesses, truth = guesses.double(), truth.double()
    error, known = ((each - truth).abs().mean(1) for each in (guesses, public.double().expand_as(truth)))
    return MixScore(
        bootstrap_mean(error, rng),
        bootstrap_mean(known, rng),
        bootstrap_mean(known - error, rng),
        _p_value(guesses, truth, groups, rng),
    )


def _p_value(guesses: Tensor, truth: Tensor, groups: Tensor, rng: torch.Generator) -> float:
    distances = (guesses[:, None] - truth[None]).abs().mean(2)
    seen = float(distances.diagonal().sum())
    dealt = torch.zeros(PERMUTATIONS, dtype=torch.float64)
    for group in set(groups.tolist()):
        places = (groups == group).nonzero()[:, 0]
        orders = torch.rand((PERMUTATIONS, len(places)), generator=rng).argsort(1)
        dealt += distances[places, places[orders]].sum(1)
    return permutation_p_value(int((dealt <= seen + 1e-12).sum()))

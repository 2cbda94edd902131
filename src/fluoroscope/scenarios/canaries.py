"""A claim put to the test: games with a canary and without, and the epsilon that they prove.

Each game is a round of its own, played by the client's or the server's own code, of which the attacker sees what its
position shows. No patient's image is needed: canaries are phantoms, public images, or updates made for the purpose.
"""

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from fluoroscope.defences.mechanism import SampledGaussian
from fluoroscope.scores.empirical_epsilon import (
    LEVEL,
    epsilon_at_least,
    held_out_error_rates,
    midpoint,
    most_epsilon,
    noise_at_most,
)

_SPAN = 30.0
"""How much more or less noise than was claimed is looked for."""


@dataclass(frozen=True, eq=False)
class CanaryGames:
    """The distinguisher's score of every game, in the order in which they were played."""

    inside: Tensor
    """(games,), where the canary was there."""
    outside: Tensor
    """(games,), where it was not."""


@dataclass(frozen=True)
class EmpiricalEpsilon:
    """What games prove of a mechanism, beside what was claimed for it."""

    claimed: float | None
    """By the accountant, an upper bound; None where it has none."""
    lower: float
    """If the noise is Gaussian and drawn as claimed, of whatever size: epsilon is at least this (f-DP)."""
    lower_of_any: float
    """Without any assumption on the mechanism; a few thousand games cannot prove more than about 5."""
    noise_multiplier: float
    """The most noise that the games leave possible, in units of what one unit changes."""
    games: int
    """On which the bounds rest; others chose the threshold."""
    level: float
    """Of each bound by itself."""

    @property
    def contradicted(self) -> bool:
        """Whether the games prove more than was claimed: the defence does not do what it says."""
        return self.claimed is not None and max(self.lower, self.lower_of_any) > self.claimed


def empirical_epsilon(
    games: CanaryGames, mechanism: SampledGaussian, delta: float, level: float = LEVEL
) -> EmpiricalEpsilon:
    """The lower bounds that `games` give, for the `mechanism` that a claim counts.

    Example:
        >>> import torch
        >>> from fluoroscope.defences.mechanism import SampledGaussian
        >>> noise = torch.randn(2, 1000, generator=torch.Generator().manual_seed(0))
        >>> found = empirical_epsilon(CanaryGames(noise[0] + 1, noise[1]), SampledGaussian(1.0), delta=1e-5)
        >>> 0.5 * found.claimed < found.lower < found.claimed
        True
    """
    rates = held_out_error_rates(games.inside, games.outside, midpoint, level)
    choice = partial(most_epsilon, delta=delta, level=level)
    any_rates = held_out_error_rates(games.inside, games.outside, choice, level)

    def misses(noise: float, false_alarms: float) -> float:
        return SampledGaussian(noise, mechanism.rate, mechanism.times).misses(false_alarms)

    ends = mechanism.noise_multiplier / _SPAN, mechanism.noise_multiplier * _SPAN
    noise = noise_at_most(rates, misses, *ends)
    return EmpiricalEpsilon(
        claimed=mechanism.epsilon(delta),
        # At the far end nothing was refuted, and nothing is proved.
        lower=0.0 if noise == ends[1] else SampledGaussian(noise, mechanism.rate, mechanism.times).tight_epsilon(delta),
        lower_of_any=epsilon_at_least(any_rates, delta),
        noise_multiplier=noise,
        games=rates.games,
        level=level,
    )

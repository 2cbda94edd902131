"""Flower's central DP with adaptive clipping, after Andrew et al. 2021: the clipping norm follows the clients' updates.

As Flower 1.41 ships it, which is not as the paper has it:

- The paper counts the updates that are *not* clipped, and lowers the norm when they are too many. Flower counts those
  that *are* clipped, and lowers the norm when they are too many: then more are clipped in the next round. So the norm
  runs away from the quantile that it should find, to 0 or without end.
- The norm changes before the noise is drawn, so the noise of a round is in units of the next round's norm.
- The count has noise for a half per client, by the paper's shift of the bits; nothing is shifted, and a client moves
  it by one.

What it is worth, for a client that sends its update or a zero: the count costs 1 / clipped_count_stddev, and the mean
share * clients / (the noise multiplier left for it * next norm / norm), as Gaussian mechanisms add up. The next norm is
random. It is that of a count which all clients enter, and noise of t deviations; that t is exceeded in any round is
a part of delta, the first half.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from scipy.special import ndtri
from torch import Tensor

from fluoroscope.defences.accounting import DELTA
from fluoroscope.defences.central_dp import central_claim, no_central_claim, noised
from fluoroscope.defences.contract import Participation, Released, norm, scalars_void
from fluoroscope.defences.distance import distance
from fluoroscope.defences.mechanism import SampledGaussian
from fluoroscope.defences.range_checks import above, at_least, between, check_gaussian
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.defences.whole_state import clipped_arrays, floating
from fluoroscope.errors import Misconfigured
from fluoroscope.types import PrivacyClaim, State


@DEFENCES.register("adaptive-clipping")
@dataclass(frozen=True)
class AdaptiveClipping:
    """Clips every client's update, noises the mean, and moves the clipping norm by how many were clipped.

    Buffers are clipped and noised like parameters. The clipping norm of a round is a setting: `adapted` has the next.

    Example:
        >>> defence = AdaptiveClipping(noise_multiplier=0.5, num_sampled_clients=20)
        >>> round(defence.mean_multiplier, 4), defence.count_stddev
        (0.5164, 1.0)
    """

    noise_multiplier: float
    """What mean and count are worth together, by the paper's formula."""
    num_sampled_clients: int
    """Clients per round, which the noise is divided by."""
    clip_norm: float = 0.1
    """Of this round; of the first round Flower's initial_clipping_norm."""
    target_clipped_quantile: float = 0.5
    """The share of clipped updates at which the norm stays."""
    clip_norm_lr: float = 0.2
    """How fast the norm moves, in its logarithm."""
    clipped_count_stddev: float | None = None
    """Deviation of the noise on the count; None: a twentieth of the clients."""
    delta: float = DELTA
    before_optimiser: ClassVar[bool] = False
    covers_buffers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_gaussian(self.clip_norm, self.noise_multiplier, self.delta, noiseless=True)
        at_least("num_sampled_clients", self.num_sampled_clients, 1)
        between("target_clipped_quantile", self.target_clipped_quantile, 0, 1)
        above("clip_norm_lr", self.clip_norm_lr, 0)
        if self.clipped_count_stddev is not None:
            at_least("clipped_count_stddev", self.clipped_count_stddev, 0)
        if self.noise_multiplier and self.noise_multiplier >= 2 * self.count_stddev:
            raise Misconfigured(
                f"noise_multiplier must be below {2 * self.count_stddev:g}, twice the deviation of the count's noise, "
                f"not {self.noise_multiplier:g}: raise clipped_count_stddev."
            )

    @property
    def count_stddev(self) -> float:
        """Of the noise on the count of clipped updates."""
        if self.clipped_count_stddev is not None:
            return self.clipped_count_stddev
        return self.num_sampled_clients / 20 if self.noise_multiplier else 0.0

    @property
    def mean_multiplier(self) -> float:
        """The noise that is left for the mean (Andrew et al. 2021)."""
        if not self.noise_multiplier:
            return 0.0
        return 1 / math.sqrt(self.noise_multiplier**-2 - (2 * self.count_stddev) ** -2)

    def claim(self, participation: Participation) -> PrivacyClaim:
        if (void := no_central_claim(participation, self.noise_multiplier)) is not None:
            return void
        if participation.open_scalars:
            return scalars_void()
        assert participation.share is not None  # or there were no claim
        spent = self._mechanism(participation.rounds, participation.share).epsilon(self.delta / 2)
        return central_claim(spent, self.delta)

    def _mechanism(self, rounds: int, share: float) -> SampledGaussian:
        tail = -float(ndtri(self.delta / (2 * rounds)))
        worst = 1 + tail * self.count_stddev / self.num_sampled_clients - self.target_clipped_quantile
        shrunk = math.exp(-self.clip_norm_lr * worst)
        mean = self.mean_multiplier * shrunk / (self.num_sampled_clients * share)
        return SampledGaussian(1 / math.hypot(1 / mean, 1 / self.count_stddev), times=rounds)

    def clip_update(self, update: State) -> dict[str, Tensor]:
        return clipped_arrays(update, self.clip_norm)

    def adapted(self, cohort: Sequence[State], rng: torch.Generator) -> "AdaptiveClipping":
        exceeding = sum(float(norm(floating(update))) > self.clip_norm for update in cohort)
        count = exceeding + self.count_stddev * float(torch.randn((), generator=rng))
        return self.with_clip_norm(self.moved(count / len(cohort)))

    def moved(self, clipped_fraction: float) -> float:
        """The next clipping norm."""
        return self.clip_norm * math.exp(-self.clip_norm_lr * (clipped_fraction - self.target_clipped_quantile))

    def with_clip_norm(self, clip_norm: float) -> "AdaptiveClipping":
        return replace(self, clip_norm=clip_norm)

    def noise_aggregate(self, update: State, cohort: Sequence[State], rng: torch.Generator) -> Released:
        noise = self.mean_multiplier * self.clip_norm / self.num_sampled_clients
        # Counters are whole numbers, and Flower cuts their noise off to one.
        fractions = {name: value for name, value in update.items() if value.is_floating_point()}
        return Released({**update, **noised(fractions, noise, rng)}, noise, distance([floating(u) for u in cohort]))

"""Central DP (DP-FedAvg, McMahan et al. 2018; P3's global DP): clip every client's update, noise the mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fluoroscope.defences.accounting import DELTA
from fluoroscope.defences.clipping import clipped
from fluoroscope.defences.contract import Participation, Released, buffers_void, dp_claim
from fluoroscope.defences.distance import distance
from fluoroscope.defences.mechanism import SampledGaussian
from fluoroscope.defences.range_checks import FORMER, check_gaussian
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.types import PrivacyClaim, State


@DEFENCES.register("central-dp")
@dataclass(frozen=True)
class CentralDp:
    """N(0, noise_multiplier * clip_norm / clients) on the aggregated update. The server itself sees everything."""

    clip_norm: float = 5.0
    """P3's C: the L2 norm over all arrays that no client's update exceeds."""
    noise_multiplier: float = 0.01
    """P3's n_eps, the z of McMahan et al.: the noise's standard deviation in units of what an average client adds."""
    before_optimiser: bool = False
    """P3 and Flower noise the model that the strategy gives. True noises the mean that the strategy is given: then its
    momentum holds noise, and all that it does afterwards costs no privacy."""
    delta: float = DELTA
    OLD_NAMES: ClassVar[Mapping[str, str]] = FORMER

    def __post_init__(self) -> None:
        check_gaussian(self.clip_norm, self.noise_multiplier, self.delta, noiseless=True)

    def claim(self, participation: Participation) -> PrivacyClaim:
        remedy = "; before_optimiser = true bounds it for all but fedmedian"
        if (void := no_central_claim(participation, self.noise_multiplier, remedy)) is not None:
            return void
        if participation.open_buffers:
            return buffers_void("are averaged and released")
        return central_claim(self.mechanism(participation).epsilon(self.delta), self.delta)

    def mechanism(self, participation: Participation) -> SampledGaussian:
        # One client moves the mean by share * clip_norm; Gaussian noise counts in units of that. The weights do not
        # move with it: the fixed denominator of McMahan et al. 2018, lemma 1. So a client is zeroed out, not removed.
        share = 1.0 if participation.share is None else participation.share
        return SampledGaussian(self.noise_multiplier / (participation.clients * share), times=participation.rounds)

    def clip_update(self, update: State) -> dict[str, Tensor]:
        return clipped(update, self.clip_norm)

    def noise_aggregate(self, update: State, cohort: Sequence[State], rng: torch.Generator) -> Released:
        noise = self.noise_multiplier * self.clip_norm / len(cohort)
        return Released(noised(update, noise, rng), noise, distance(cohort))


def noised(update: State, deviation: float, rng: torch.Generator) -> dict[str, Tensor]:
    """Plus N(0, deviation) everywhere."""
    return {name: v + deviation * torch.randn(v.shape, generator=rng).to(v.device) for name, v in update.items()}


def no_central_claim(participation: Participation, noise_multiplier: float, remedy: str = "") -> PrivacyClaim | None:
    """Why noise at the server promises nothing; None where it may."""
    if participation.share is None:
        return PrivacyClaim(
            statement="not differential privacy: noise comes after a strategy that is no plain mean, so a client's "
            f"influence on what it covers has no bound{remedy}"
        )
    return None if noise_multiplier else PrivacyClaim(statement="not differential privacy: there is no noise")


def central_claim(epsilon: float | None, delta: float) -> PrivacyClaim:
    """What noise at the server promises."""
    told = (
        "central DP for all images of a client at once, of the model that is released; the clients' number and "
        "weights count as public"
    )
    return dp_claim(epsilon, delta, "client", "zero-out", "central", told)

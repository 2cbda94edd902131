"""Flower's LocalDpMod: local DP for a whole client, with the noise of the classical Gaussian mechanism."""

import math
from dataclasses import dataclass

import torch

from fluoroscope.defences.accounting import DELTA
from fluoroscope.defences.contract import Participation, dp_claim, scalars_void
from fluoroscope.defences.mechanism import SampledGaussian
from fluoroscope.defences.range_checks import above, at_least
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.defences.whole_state import changes, clipped_arrays, with_changes
from fluoroscope.types import PrivacyClaim, UpdateRecord


@DEFENCES.register("local-dp")
@dataclass(frozen=True)
class LocalDp:
    """The client clips what it sends to `clip_norm` and adds N(0, sensitivity * sqrt(2 ln(1.25 / delta)) / epsilon).

    Parameters and BatchNorm's statistics alike, as Flower 1.41 does; a running variance may become negative. Single
    numbers (arrays without a dimension) and counters count in the norm and pass as they are.

    `epsilon` is what the noise is chosen by; what that is worth is the claim's. Two clipped updates are 2 clip_norm
    apart, whatever `sensitivity` says; the formula is for an epsilon below 1 (Dwork and Roth 2014, theorem A.1); and
    rounds add up.

    Example:
        >>> import fluoroscope as fl
        >>> from fluoroscope.defences import Participation
        >>> once = Participation(fl.LocalTraining(fl.Sgd(0.1), images=1, batch_size=1), rounds=1)
        >>> round(LocalDp(clip_norm=1.0, sensitivity=1.0, epsilon=1.0).claim(once).epsilon, 2)
        1.75
    """

    clip_norm: float
    """Flower's clipping_norm: the L2 norm over all arrays that no update exceeds."""
    sensitivity: float
    """How far apart two updates are taken to be; what they are is 2 clip_norm."""
    epsilon: float
    """That the noise is chosen by, for one round."""
    delta: float = DELTA

    def __post_init__(self) -> None:
        above("clip_norm", self.clip_norm, 0)
        at_least("sensitivity", self.sensitivity, 0)
        above("epsilon", self.epsilon, 0)
        above("delta", self.delta, 0, below=1)

    @property
    def deviation(self) -> float:
        """Of the noise."""
        return self.sensitivity * math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon

    def claim(self, participation: Participation) -> PrivacyClaim:
        if not self.sensitivity:
            return PrivacyClaim(statement="not differential privacy: there is no noise")
        if participation.open_scalars:
            return scalars_void()
        spent = self.mechanism(participation).epsilon(self.delta)
        told = "local DP for all images of a client at once, of its update; how many they are counts as public"
        return dp_claim(spent, self.delta, "client", "replace", "local", told)

    def mechanism(self, participation: Participation) -> SampledGaussian:
        # Any two clipped updates are at most 2 clip_norm apart: the server sees one client's by itself.
        return SampledGaussian(self.deviation / (2 * self.clip_norm), times=participation.rounds)

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        noised = {
            name: value + self.deviation * torch.randn(value.shape, generator=rng).to(value.device)
            if value.ndim and value.is_floating_point()
            else value
            for name, value in clipped_arrays(changes(record), self.clip_norm).items()
        }
        return with_changes(record, noised)

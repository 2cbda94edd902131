"""Local differential privacy (local DP) for a whole client: clip, then noise that does not depend on the data."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from fluoroscope.defences.accounting import DELTA
from fluoroscope.defences.clipping import clipped
from fluoroscope.defences.contract import Participation, dp_claim, sent
from fluoroscope.defences.mechanism import SampledGaussian
from fluoroscope.defences.range_checks import FORMER, check_gaussian
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.errors import Misconfigured
from fluoroscope.types import PrivacyClaim, UpdateRecord


@DEFENCES.register("clip-and-noise")
@dataclass(frozen=True)
class ClipAndNoise:
    """Local DP: the client clips its update to `clip_norm` and adds N(0, noise_multiplier * clip_norm) before it sends.

    So the claim holds against the server too. There is no third knob for the sensitivity.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> import fluoroscope as fl
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
        >>> before = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
        >>> after = {name: torch.linspace(0, 1, value.numel()).view_as(value) for name, value in before.items()}
        >>> training = fl.LocalTraining(fl.Sgd(0.1), images=1, batch_size=1)
        >>> record = fl.UpdateRecord.between(model, before, after, training, input_shape=(1, 4, 4))
        >>> safer = fl.ClipAndNoise(clip_norm=1.0, noise_multiplier=0.5).send(record, fl.generator(0))
        >>> bool((safer.arrays["1.bias"] != record.arrays["1.bias"]).all())
        True
    """

    clip_norm: float
    """C: the L2 norm over all arrays that no update exceeds."""
    noise_multiplier: float
    """sigma: the noise's standard deviation in units of `clip_norm`."""
    delta: float = DELTA
    OLD_NAMES: ClassVar[Mapping[str, str]] = FORMER

    def __post_init__(self) -> None:
        check_gaussian(self.clip_norm, self.noise_multiplier, self.delta)

    def claim(self, participation: Participation) -> PrivacyClaim:
        spent = self.mechanism(participation).epsilon(self.delta)
        told = "local DP for all images of a client at once, of its update; how many they are counts as public"
        return dp_claim(spent, self.delta, "client", "replace", "local", told)

    def mechanism(self, participation: Participation) -> SampledGaussian:
        # Any two clipped updates are at most 2 clip_norm apart: the server sees one client's by itself.
        return SampledGaussian(self.noise_multiplier / 2, times=participation.rounds)

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        if record.buffers_after:
            raise Misconfigured(
                "clip-and-noise leaves BatchNorm's statistics as they are, which voids its claim: put fed-bn before "
                "it, or use a model without BatchNorm (resnet18-gn)."
            )
        deviation = self.noise_multiplier * self.clip_norm
        noised = {
            name: value + deviation * torch.randn(value.shape, generator=rng).to(value.device)
            for name, value in clipped(record.arrays, self.clip_norm).items()
        }
        return replace(record, state_after=sent(record, noised))

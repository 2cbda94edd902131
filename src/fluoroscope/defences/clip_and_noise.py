"""Local differential privacy for a whole client: clip, then noise that does not depend on the data."""

from dataclasses import dataclass, replace

import torch

from fluoroscope.defences.accounting import DELTA, epsilon, gaussian
from fluoroscope.defences.clipping import clipped
from fluoroscope.defences.contract import Participation, sent
from fluoroscope.defences.range_checks import above
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.errors import Misconfigured
from fluoroscope.types import PrivacyClaim, UpdateRecord


@DEFENCES.register("clip-and-noise")
@dataclass(frozen=True)
class ClipAndNoise:
    """The update clipped to `clip`, plus N(0, multiplier * clip). There is no third knob for the sensitivity."""

    clip: float
    multiplier: float
    delta: float = DELTA

    def __post_init__(self) -> None:
        above("clip", self.clip, 0)
        above("multiplier", self.multiplier, 0)

    def claim(self, participation: Participation) -> PrivacyClaim:
        # Any two clipped updates are at most 2 clip apart: the server sees one client's by itself.
        spent = epsilon(gaussian(self.multiplier / 2, participation.rounds), self.delta)
        return PrivacyClaim(spent, self.delta, "client", "all of a client's images replaced; holds against the server")

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        if record.buffers_after:
            raise Misconfigured(
                "clip-and-noise leaves BatchNorm's statistics as they are, which voids its claim: put fed-bn before "
                "it, or use a model without BatchNorm (resnet18-gn)."
            )
        deviation = self.multiplier * self.clip
        noised = {
            name: value + deviation * torch.randn(value.shape, generator=rng).to(value.device)
            for name, value in clipped(record.arrays, self.clip).items()
        }
        return replace(record, state_after=sent(record, noised))

"""The usual baseline: no update is longer than a bound."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fluoroscope.defences.contract import Participation, norm, sent
from fluoroscope.defences.range_checks import above
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.types import PrivacyClaim, State, UpdateRecord


def clipped(update: State, bound: float) -> dict[str, Tensor]:
    """The update, scaled down to `bound` where its L2 norm over all arrays is greater. A zero update stays zero."""
    factor = (bound / norm(update).clamp_min(torch.finfo(torch.float32).tiny)).clamp(max=1.0)
    return {name: value * factor for name, value in update.items()}


@DEFENCES.register("clipping")
@dataclass(frozen=True)
class Clipping:
    """The change of the parameters, clipped to an L2 norm. A direction survives that, so an image does too."""

    bound: float

    def __post_init__(self) -> None:
        above("bound", self.bound, 0)

    def claim(self, participation: Participation) -> PrivacyClaim:
        return PrivacyClaim(statement="not differential privacy: nothing is random")

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        return replace(record, state_after=sent(record, clipped(record.arrays, self.bound)))

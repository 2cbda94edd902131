"""The usual baseline: no update is longer than the clipping norm."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fluoroscope.defences.contract import Participation, norm, sent
from fluoroscope.defences.range_checks import above
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.types import PrivacyClaim, State, UpdateRecord


def clipped(update: State, clip_norm: float) -> dict[str, Tensor]:
    """The update, scaled down to `clip_norm` where its L2 norm over all arrays is greater. A zero update stays zero."""
    factor = (clip_norm / norm(update).clamp_min(torch.finfo(torch.float32).tiny)).clamp(max=1.0)
    return {name: value * factor for name, value in update.items()}


@DEFENCES.register("clipping")
@dataclass(frozen=True)
class Clipping:
    """The change of the parameters, clipped to an L2 norm. A direction survives that, so an image does too."""

    clip_norm: float
    """The L2 norm over all arrays that no update exceeds."""
    OLD_NAMES: ClassVar[Mapping[str, str]] = {"bound": "clip_norm"}

    def __post_init__(self) -> None:
        above("clip_norm", self.clip_norm, 0)

    def claim(self, participation: Participation) -> PrivacyClaim:
        return PrivacyClaim(statement="not differential privacy: nothing is random")

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        return replace(record, state_after=sent(record, clipped(record.arrays, self.clip_norm)))

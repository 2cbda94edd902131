"""NVFlare's PercentilePrivacy: the smallest changes are not shared, the largest are cut (Shokri and Shmatikov 2015)."""

from dataclasses import dataclass

import numpy as np
import torch

from fluoroscope.defences.contract import Participation
from fluoroscope.defences.range_checks import above, at_least, between
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.defences.whole_state import changes, with_changes
from fluoroscope.types import PrivacyClaim, UpdateRecord


@DEFENCES.register("percentile-privacy")
@dataclass(frozen=True)
class PercentilePrivacy:
    """Changes per step below the percentile of all of them become 0, and none is larger than `gamma`.

    Parameters and BatchNorm's statistics alike, as NVFlare 2.9 does to a DXO of the kind WEIGHT_DIFF. Single numbers
    (arrays without a dimension) count in the percentile and pass as they are.

    Example:
        >>> PercentilePrivacy()
        PercentilePrivacy(percentile=10.0, gamma=0.01, steps=None)
    """

    percentile: float = 10.0
    """How much of the update is not shared, in percent."""
    gamma: float = 0.01
    """The largest change per step."""
    steps: int | None = None
    """What the client reports as NUM_STEPS_CURRENT_ROUND; None: its true number of steps. 1 where it reports none."""

    def __post_init__(self) -> None:
        between("percentile", self.percentile, 0, 100)
        above("gamma", self.gamma, 0)  # NVFlare takes 0 and then filters nothing
        if self.steps is not None:
            at_least("steps", self.steps, 1)

    def claim(self, participation: Participation) -> PrivacyClaim:
        return PrivacyClaim(statement="not differential privacy: nothing is random")

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        steps = self.steps or record.training.steps
        per_step = {name: change.cpu().numpy() / steps for name, change in changes(record).items()}
        cutoff = np.percentile(np.concatenate([np.abs(value).ravel() for value in per_step.values()]), self.percentile)
        shared = {
            name: value if value.ndim == 0 else np.where(np.abs(value) < cutoff, 0, value.clip(-self.gamma, self.gamma))
            for name, value in per_step.items()
        }
        return with_changes(record, {name: torch.as_tensor(value * steps) for name, value in shared.items()})

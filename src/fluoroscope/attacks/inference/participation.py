"""Client inference (P3 section 5): does the hospital whose data look like my shadow set take part?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fluoroscope.attacks.inference.losses import losses
from fluoroscope.errors import Misconfigured
from fluoroscope.types import LabelledImages, RoundView

_LEAST = 1e-12
"""A loss that is no longer told from 0."""


@dataclass(frozen=True)
class Difference:
    """P3 tables 9, 10, D.13 to D.16, of one round."""

    aggregated: float
    """The loss that the server tells: over all clients' own test images."""
    target: float
    """The global model's loss on the shadow set."""

    @property
    def percent(self) -> float:
        """P3: how much worse the model is on the target's kind of data, relative to its loss there."""
        return 100 * (self.target - self.aggregated) / max(self.target, _LEAST)

    @property
    def log_ratio(self) -> float:
        """Orders rounds as `percent` does, which has no lower end: a model that fits the target well outweighs all."""
        return math.log(max(self.target, _LEAST)) - math.log(max(self.aggregated, _LEAST))


def difference(view: RoundView, shadow: LabelledImages) -> Difference:
    """What a curious client computes after the round."""
    if not len(shadow):
        raise Misconfigured(
            "the shadow set is empty: an attacker without an image of the target's kind learns nothing."
        )
    return Difference(view.metrics["loss"], float(losses(view.network, view.state, shadow).mean()))


def participation_score(views: Sequence[RoundView], shadow: LabelledImages) -> float:
    """High where the target seems to take part: the model then does better on its kind of data than on others'.

    In one round it orders as P3's difference does. Over several it is the mean of their log ratios.
    """
    found = [difference(view, shadow).log_ratio for view in views]
    return -sum(found) / len(found)

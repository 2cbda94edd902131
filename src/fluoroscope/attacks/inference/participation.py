"""Client inference (P3 section 5): does the hospital whose data look like my shadow set take part?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.inference.registry import INFERENCE_ATTACKS, Pool, Seen
from fluoroscope.attacks.inference.seen_model import MODEL, SeenModel, seen_models
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.threat_models import ParticipantObservation
from fluoroscope.types import Capability, CrossEntropy, LabelledImages, Observation

_LEAST = 1e-12
"""A loss that is no longer told from 0."""


class Difference(NamedTuple):
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


@dataclass(frozen=True)
class LossDifference:
    """P3's relative difference of the losses on the shadow set and on everybody's data."""

    needs: ClassVar[frozenset[Capability]] = MODEL

    def run(self, observations: Seen, candidates: LabelledImages, rng: Generator, pool: Pool = None) -> Tensor:
        """A row per round, with one column: the candidates are the shadow set, and it is asked about as a whole.

        High where the target seems to take part: the model then does better on its kind of data than on others'. It
        orders rounds as P3's difference does; several rounds of a federation are best averaged.
        """
        found = self.differences(observations, candidates)
        return torch.tensor([[-each.log_ratio] for each in found], dtype=torch.float64)

    def differences(self, observations: Sequence[Observation], shadow: LabelledImages) -> list[Difference]:
        """What a curious client computes after each round."""
        if not len(shadow):
            raise Misconfigured(
                "the shadow set is empty: an attacker without an image of the target's kind learns nothing."
            )
        models = seen_models("participation", observations, self.needs)
        return [_difference(seen, model, shadow) for seen, model in zip(observations, models, strict=True)]


def _difference(seen: Observation, model: SeenModel, shadow: LabelledImages) -> Difference:
    told = (seen.metrics if isinstance(seen, ParticipantObservation) else None) or {}
    if "loss" not in told:
        raise Unsupported(
            f"participation compares with the loss that the server tells its clients, and the observation of round "
            f"{seen.round} has none; observe rounds with `observe_round`, or choose an attack that does without it."
        )
    # Clients evaluate by plain cross-entropy (scores/utility.py), however their training weighs or smooths it.
    alike = replace(model, loss=CrossEntropy())
    return Difference(told["loss"], float(alike.losses(shadow).mean()))


INFERENCE_ATTACKS.add("participation", LossDifference())

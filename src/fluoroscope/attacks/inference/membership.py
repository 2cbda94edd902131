"""Membership by a threshold on the loss (Yeom et al., CSF 2018): a record that was trained on is fitted better."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fluoroscope.attacks.inference.registry import INFERENCE_ATTACKS
from fluoroscope.attacks.inference.seen_model import MODEL, seen_models
from fluoroscope.types import Capability, LabelledImages, Observation


@dataclass(frozen=True)
class LossThreshold:
    """The negative loss under the model that each observation shows."""

    needs: ClassVar[frozenset[Capability]] = MODEL

    def run(
        self,
        observations: Sequence[Observation],
        candidates: LabelledImages,
        rng: torch.Generator,
        pool: LabelledImages | None = None,
    ) -> Tensor:
        """A row per observation: high where a candidate seems to have been trained on."""
        return torch.stack([-model.losses(candidates) for model in seen_models("loss", observations, self.needs)])


INFERENCE_ATTACKS.add("loss", LossThreshold())

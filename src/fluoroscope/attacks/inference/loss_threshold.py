"""Membership by a threshold on the loss (Yeom et al., CSF 2018): a record that was trained on is fitted better."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.inference.registry import INFERENCE_ATTACKS, Pool, Seen
from fluoroscope.attacks.inference.seen_model import MODEL, seen_models
from fluoroscope.types import Capability, LabelledImages


@dataclass(frozen=True)
class LossThreshold:
    """The negative loss under the model that each observation shows."""

    needs: ClassVar[frozenset[Capability]] = MODEL

    def run(self, observations: Seen, candidates: LabelledImages, rng: Generator, pool: Pool = None) -> Tensor:
        """A row per observation: high where a candidate seems to have been trained on."""
        return torch.stack([-model.losses(candidates) for model in seen_models("loss", observations, self.needs)])


INFERENCE_ATTACKS.add("loss", LossThreshold())

"""Source inference (Hu et al., ICDM 2021): which client trained on this record? Needs each client's model."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.inference.registry import INFERENCE_ATTACKS, Pool, Seen
from fluoroscope.attacks.inference.seen_model import MODEL, seen_models
from fluoroscope.errors import Misconfigured
from fluoroscope.types import Capability, LabelledImages


@dataclass(frozen=True)
class SourceInference:
    """How likely each client is the source: the softmax of the negative losses over clients, as its logarithm.

    The likeliest is the client whose model has the lowest loss (Hu et al. theorem 1): `scores.argmax(0)`.
    """

    needs: ClassVar[frozenset[Capability]] = MODEL | {Capability.UPDATE}

    def run(self, observations: Seen, candidates: LabelledImages, rng: Generator, pool: Pool = None) -> Tensor:
        """A row per observation, which is one client's; a candidate's column sums to 1 as probabilities."""
        if len(observations) < 2:
            raise Misconfigured(
                f"source inference tells clients apart; {len(observations)} is too few, give two or more."
            )
        models = seen_models("source", observations, self.needs)
        return torch.stack([-model.losses(candidates) for model in models]).log_softmax(0)


INFERENCE_ATTACKS.add("source", SourceInference())

"""Inference attacks by name, and what each of them keeps to."""

from collections.abc import Sequence
from typing import Protocol

from torch import Generator, Tensor

from fluoroscope.registry import Registry
from fluoroscope.types import Capability, LabelledImages, Observation

Seen = Sequence[Observation]
Pool = LabelledImages | None


class InferenceAttack(Protocol):
    """Settings as the fields of a frozen dataclass; what it needs to know; and the run."""

    @property
    def needs(self) -> frozenset[Capability]: ...

    def run(self, observations: Seen, candidates: LabelledImages, rng: Generator, pool: Pool = None) -> Tensor:
        """Scores: how likely those behind each observation trained on each candidate.

        Args:
            observations: what the attacker sees: one per client, or one per round.
            candidates: the images that it asks about, which it has.
            rng: of all that it draws.
            pool: images of its own of the same kind, which nobody trained on, for an attack that simulates clients.

        Returns:
            (observations, candidates), float64, higher for more likely. An attack that asks about the candidates as a
            whole, a hospital's kind of data, gives one column.

        Raises:
            Unsupported: an observation lacks something of `needs`.
        """
        ...


INFERENCE_ATTACKS: Registry[InferenceAttack] = Registry("inference_attacks")

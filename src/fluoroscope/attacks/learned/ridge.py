"""A linear inverter: from what is seen of an update straight to the images, learned on public ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.learned.evidence import CHANGES, STATISTICS
from fluoroscope.attacks.learned.learning import NEEDS, OnIteration, lessons
from fluoroscope.attacks.learned.ridge_regression import Deviations, Directions, Ridge
from fluoroscope.attacks.registry import ATTACKS
from fluoroscope.types import Capability, Observation, Reconstruction

SCALINGS: dict[str, type[Deviations] | type[Directions]] = {STATISTICS: Deviations, CHANGES: Directions}


@dataclass(frozen=True)
class RidgeInversion:
    """The best linear estimate of a client's images, which is the public mean where the update shows nothing of them.

    Several images are told from dark to bright: of an update nobody knows which was first.
    """

    most: int = 8
    """Images that are told one by one; of a client with more, their mean alone."""

    @property
    def needs(self) -> frozenset[Capability]:
        return NEEDS

    def run(
        self,
        observations: Sequence[Observation],
        rng: torch.Generator,
        on_iteration: OnIteration = lambda iteration, iterations: None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Reconstruction]:
        """A guess for each observation; those of one kind of client are learned for together."""
        found: dict[int, Reconstruction] = {}
        for lesson in lessons("ridge", observations, rng, on_iteration, checkpoint):
            targets = self._targets(lesson.rounds.images)
            evidence = lesson.rounds.evidence
            scalings = {kind: SCALINGS[kind].of(values) for kind, values in evidence.items()}
            learned = Ridge.fit(evidence, scalings, targets.flatten(1), lesson.rounds.folds)
            guesses = learned.predict(lesson.seen()).float().clamp(0, 1)
            error = min(1.0, learned.error)
            for place, guess in zip(lesson.places, guesses, strict=True):
                images = guess.view(targets.shape[1:])
                found[place] = Reconstruction(images, None, error, restarts=(error,), trace=(1.0, error))
        return [found[place] for place in range(len(observations))]

    def _targets(self, images: Tensor) -> Tensor:
        return images if images.shape[1] <= self.most else images.mean(1, keepdim=True)


ATTACKS.add("ridge", RidgeInversion())

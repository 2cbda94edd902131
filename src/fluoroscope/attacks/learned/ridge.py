"""A linear inverter: from what is seen of an update straight to the images, learned on public ones."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from fluoroscope.attacks.common.running import Kept, Observations, OnIteration, silent
from fluoroscope.attacks.learned.evidence import CHANGES, SIZES, STATISTICS
from fluoroscope.attacks.learned.learning import NEEDS, Lesson, guessed, lessons
from fluoroscope.attacks.learned.ridge_regression import Deviations, Directions, Ridge
from fluoroscope.attacks.registry import ATTACKS
from fluoroscope.types import Capability, Reconstruction

SCALINGS: dict[str, type[Deviations] | type[Directions]] = {
    STATISTICS: Deviations,
    CHANGES: Directions,
    SIZES: Deviations,
}


@dataclass(frozen=True)
class RidgeInversion:
    """The best linear estimate of a client's images, which is the public mean where the update shows nothing of them.

    Several images are told from dark to bright: of an update nobody knows which was first.
    """

    needs: ClassVar[frozenset[Capability]] = NEEDS
    most: int = 8
    """Images that are told one by one; of a client with more, their mean alone."""

    def run(
        self, observations: Observations, rng: Generator, on_iteration: OnIteration = silent, checkpoint: Kept = None
    ) -> list[Reconstruction]:
        """A guess for each observation; those of one kind of client are learned for together."""
        return guessed(lessons("ridge", observations, rng, on_iteration, checkpoint), self._guesses)

    def _guesses(self, lesson: Lesson) -> list[Reconstruction]:
        learned = Linear.of(lesson, self.most)
        return guesses(learned.images(lesson), learned.ridge.error)


@dataclass(frozen=True, eq=False)
class Linear:
    """A ridge regression to images, and the images that it was learned from."""

    ridge: Ridge
    targets: Tensor
    """(clients, images, channels, height, width)."""
    folds: Tensor

    @classmethod
    def of(cls, lesson: Lesson, most: int) -> "Linear":
        """Learned from the simulated rounds; of clients of more images than `most`, their mean alone."""
        images, evidence = lesson.rounds.images, lesson.rounds.evidence
        targets = images if images.shape[1] <= most else images.mean(1, keepdim=True)
        scalings = {kind: SCALINGS[kind].of(values) for kind, values in evidence.items()}
        ridge = Ridge.fit(evidence, scalings, targets.flatten(1), lesson.rounds.folds)
        return cls(ridge, targets, lesson.rounds.folds)

    def images(self, lesson: Lesson) -> Tensor:
        """(observations, images, channels, height, width)."""
        return self.ridge.predict(lesson.seen()).float().view(-1, *self.targets.shape[1:])

    def held_out(self) -> Tensor:
        """The simulated clients' images as they would be guessed by one who had not learned from them."""
        return self.ridge.held_out(self.targets.flatten(1), self.folds).float().view_as(self.targets)


def guesses(images: Tensor, error: float) -> list[Reconstruction]:
    """One per observation. Their objective is the error on held-out patients, as a share of the public mean's."""
    error = min(1.0, error)
    return [Reconstruction(each.clamp(0, 1), None, error, restarts=(error,), trace=(1.0, error)) for each in images]


ATTACKS.add("ridge", RidgeInversion())

"""Many steps told by few gradients: at points between the two states that the attacker knows, and looks for.

The mean gradient of a round is that of all its images at some point of the way, but for the bend of the way. Where that
point lies depends on how the loss falls, so it is learned: images at a first guess of it, the points at which those
images fit the update best, and the images again. The order of the images and the number of epochs play no part.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fluoroscope.attacks.common.gradients import is_exact
from fluoroscope.attacks.gradient_inversion.label_handling import certain
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.attacks.gradient_inversion.simulated_clients.dispatch import client_for
from fluoroscope.attacks.gradient_inversion.stages import Gang, Grids, StatisticsFirst
from fluoroscope.types import Observation, Reconstruction

if TYPE_CHECKING:
    from fluoroscope.attacks.gradient_inversion.attack import Inversion


@dataclass(frozen=True)
class LearnedPoints:
    """Stages at the points that the objective begins with, then its last one again at those that fit best."""

    iterations: int
    """With both terms, at the first points and again at the learned ones."""
    lr: float
    grids: Grids = field(default_factory=Grids)
    tried: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    """Shares of the way that are tried for each point."""

    @property
    def stages(self) -> StatisticsFirst:
        """At the first points."""
        return StatisticsFirst(self.iterations, self.lr, self.grids)

    def extra(self, images: int) -> int:
        return self.stages.extra(images) + self.iterations

    def play(self, attack: "Inversion", gang: Gang) -> list[Reconstruction]:
        """A guess's objective and trace are those at the learned points."""
        objective = attack.objective
        assert isinstance(objective, Objective)
        done, found = self.stages.extra(gang.images) + attack.budget.iterations, []
        for number, first in enumerate(self.stages.play(attack, gang)):
            learned = best_points(gang.turns[number].observation, objective, first, self.tried)
            again = self.stages.last(replace(attack, objective=learned), first)
            last = gang.alone(again, number, done, "learned points")
            found.append(replace(last, start=first.start, snapshots=first.snapshots))
        return found


def best_points(
    observation: Observation, objective: Objective, guess: Reconstruction, tried: tuple[float, ...]
) -> Objective:
    """The objective at the points where it is least for a guess, one point after another.

    One step is taken where the round began, and leaves nothing to look for.
    """
    assert observation.training is not None
    assert guess.labels is not None
    if is_exact(observation.training):
        return objective
    logits = certain(guess.labels, client_for(observation, objective).setup)
    for place in range(len(objective.points)):
        tried_here = [_moved(objective, place, point) for point in tried]
        values = [float(client_for(observation, each).evaluate(guess.images, logits)[0]) for each in tried_here]
        objective = tried_here[values.index(min(values))]
    return objective


def _moved(objective: Objective, place: int, point: float) -> Objective:
    points = objective.points
    return replace(objective, points=(*points[:place], point, *points[place + 1 :]))

"""An attack in two stages: the statistics first, which are cheap to follow, and the gradient term at the end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from fluoroscope.attacks.inversion.checkpoint import Checkpoint
from fluoroscope.attacks.inversion.engine import Budget
from fluoroscope.attacks.inversion.evidence import gives_statistics
from fluoroscope.attacks.inversion.initialisation import Given
from fluoroscope.attacks.inversion.optimisers import Adam, Schedule
from fluoroscope.attacks.inversion.simulation import Objective
from fluoroscope.types import Observation, Reconstruction

if TYPE_CHECKING:
    from fluoroscope.attacks.inversion.attack import Inversion


@dataclass(frozen=True)
class Polish:
    """Leaves the gradient term to a last few iterations by small steps.

    Far from the truth it only slows the statistics down, at three times their cost; near it the valley is narrow, and
    a long step leaves it. Labels, which the statistics do not know, go at the pace of the first stage.
    """

    iterations: int
    lr: float

    def applies(self, objective: object, observations: Sequence[Observation]) -> bool:
        """Only where there are both terms: an attack on the update alone has it from the start."""
        both = isinstance(objective, Objective) and objective.distance is not None and objective.batchnorm_weight > 0
        return both and all(gives_statistics(observation) for observation in observations)

    def run(
        self,
        attack: "Inversion",
        observations: Sequence[Observation],
        rng: torch.Generator,
        on_iteration: Callable[[int, int], None],
        checkpoint: Checkpoint | None,
    ) -> list[Reconstruction]:
        """Both stages. The guess's objective and trace are the second's; its start is the first's.

        A stopped run repeats a first stage that had ended: it gives the same again.
        """
        assert isinstance(attack.objective, Objective)
        assert isinstance(attack.optimiser, Adam)
        seeds = torch.randint(2**62, (2,), generator=rng).tolist()
        before, after = attack.budget.iterations * len(observations), self.iterations * len(observations)
        steps = attack.objective.steps
        # Far from the truth, unrolling puts later steps at wrong weights.
        alone = replace(attack.objective, distance=None, steps="interpolated" if steps == "unrolled" else steps)
        first = replace(attack, objective=alone, polish=None).run(
            observations,
            torch.Generator().manual_seed(seeds[0]),
            partial(_report, on_iteration, 0, before + after),
            _part(checkpoint, "statistics"),
        )
        found = []
        for k, (observation, guess) in enumerate(zip(observations, first, strict=True)):
            second = replace(
                attack,
                start=Given(guess.images),
                optimiser=replace(attack.optimiser, lr=self.lr),
                label_pace=attack.label_pace * attack.optimiser.lr / self.lr,
                schedule=Schedule(warmup=5, decay="cosine"),
                budget=Budget(self.iterations),
                restarts=1,
                polish=None,
            )
            report = partial(_report, on_iteration, before + k * self.iterations, before + after)
            (polished,) = second.run(
                [observation],
                torch.Generator().manual_seed(seeds[1]),
                report,
                _part(checkpoint, f"polish-{k}"),
            )
            found.append(replace(polished, start=guess.start, snapshots=guess.snapshots))
        return found


def _report(on_iteration: Callable[[int, int], None], done: int, iterations: int, iteration: int, _: int) -> None:
    on_iteration(done + iteration, iterations)


def _part(checkpoint: Checkpoint | None, name: str) -> Checkpoint | None:
    return None if checkpoint is None else replace(checkpoint, folder=checkpoint.folder / name)

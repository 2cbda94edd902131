"""An attack in stages: the statistics first, which are cheap to follow, and the gradient term at the end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.common.initialisation import Given
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.gradient_inversion.coarse import CoarseToFine
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.attacks.gradient_inversion.simulated_clients.dispatch import client_for
from fluoroscope.digest import digest
from fluoroscope.rng import generator
from fluoroscope.types import Observation, Reconstruction

if TYPE_CHECKING:
    from fluoroscope.attacks.gradient_inversion.attack import Inversion

OnIteration = Callable[[int, int], None]


@dataclass(frozen=True)
class StatisticsFirst:
    """Follows the statistics with the attack's own settings, then both terms for a few iterations by small steps.

    Far from the truth the gradient term only slows the statistics down, at three times their cost; near it the valley
    is narrow, and a long step leaves it. Labels, which the statistics do not know, go at the pace of the first stage.
    """

    iterations: int
    """With both terms."""
    lr: float
    coarse: CoarseToFine = field(default_factory=CoarseToFine)
    """For clients of more than one image."""

    def run(
        self,
        attack: "Inversion",
        observations: Sequence[Observation],
        rng: torch.Generator,
        on_iteration: OnIteration,
        checkpoint: Checkpoint | None,
    ) -> list[Reconstruction]:
        """All stages, one observation after another.

        The guess's objective and trace are those of the last stage, its start is the attack's.
        """
        seed = int(torch.randint(2**62, (), generator=rng))
        parts = [self._iterations(attack, observation) for observation in observations]
        found = []
        for k, observation in enumerate(observations):
            report = partial(_report, on_iteration, sum(parts[:k]), sum(parts))
            part = None if checkpoint is None else checkpoint.part(f"observation-{k}")
            found.append(self._one(attack, observation, seed, report, part))
        return found

    def _iterations(self, attack: "Inversion", observation: Observation) -> int:
        assert observation.training is not None
        return self.coarse.total(observation.training.images) + attack.budget.iterations + self.iterations

    def _one(
        self,
        attack: "Inversion",
        observation: Observation,
        seed: int,
        on_iteration: Callable[[int], None],
        checkpoint: Checkpoint | None,
    ) -> Reconstruction:
        assert isinstance(attack.objective, Objective)
        assert isinstance(attack.optimiser, Adam)
        assert observation.training is not None
        steps = attack.objective.steps
        # Far from the truth, unrolling puts later steps at wrong weights.
        alone = replace(attack.objective, distance=None, steps="interpolated" if steps == "unrolled" else steps)
        first = replace(attack, objective=alone, stages=None)
        draws, begun = generator(seed, digest(observation.update), "stages"), None
        done = self.coarse.total(observation.training.images)
        if done:
            client = client_for(observation, alone)
            begun = attack.start(observation, client.setup.shape, draws)
            logits = begun.new_zeros(client.setup.shape[0], client.setup.outputs)  # the statistics do not know them
            part = None if checkpoint is None else checkpoint.part("coarse")
            key = digest(attack, observation, seed)
            parted = self.coarse(client, begun, logits, attack.box, draws, on_iteration, part, key)
            first = replace(first, start=Given(parted))
        (guess,) = first.run(
            [observation],
            draws,
            _from(on_iteration, done),
            None if checkpoint is None else checkpoint.part("statistics"),
        )
        second = replace(
            attack,
            start=Given(guess.images),
            optimiser=replace(attack.optimiser, lr=self.lr),
            label_pace=attack.label_pace * attack.optimiser.lr / self.lr,
            schedule=Schedule(warmup=5, decay="cosine"),
            budget=Budget(self.iterations),
            restarts=1,
            stages=None,
        )
        done += attack.budget.iterations
        (last,) = second.run(
            [observation], draws, _from(on_iteration, done), None if checkpoint is None else checkpoint.part("both")
        )
        return replace(last, start=guess.start if begun is None else begun, snapshots=guess.snapshots)


def _report(on_iteration: OnIteration, done: int, iterations: int, iteration: int) -> None:
    on_iteration(done + iteration, iterations)


def _from(on_iteration: Callable[[int], None], done: int) -> OnIteration:
    return lambda iteration, iterations: on_iteration(done + iteration)

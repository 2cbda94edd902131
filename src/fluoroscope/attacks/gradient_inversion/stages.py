"""An attack in stages: coarse grids and the statistics first, which are cheap to follow, the gradient term last."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.common.descent import Optimiser
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.common.initialisation import Given
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.common.running import OnIteration
from fluoroscope.attacks.gradient_inversion.coarse import CoarseToFine
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.attacks.gradient_inversion.simulated_clients.dispatch import client_for
from fluoroscope.digest import digest
from fluoroscope.rng import generator
from fluoroscope.types import Observation, Reconstruction

if TYPE_CHECKING:
    from fluoroscope.attacks.gradient_inversion.attack import Inversion


@dataclass(frozen=True)
class Grids:
    """What brings images on before their pixels, and how far pixels are moved then."""

    several: CoarseToFine = field(default_factory=CoarseToFine)
    one: CoarseToFine = field(default_factory=lambda: CoarseToFine(iterations=60, lr=0.05, noise=0.0))
    """A single image has nobody to part from."""
    fine: float = 0.3
    """Times the attack's own step, for one image: a long step leaves what the grids found."""

    def of(self, images: int) -> CoarseToFine:
        return self.one if images == 1 else self.several

    def settled(self, optimiser: Optimiser[Any], images: int) -> Optimiser[Any]:
        """The optimiser of the pixels after the grids."""
        if images > 1 or not isinstance(optimiser, Adam):
            return optimiser
        return replace(optimiser, lr=optimiser.lr * self.fine)


@dataclass(frozen=True)
class CoarseFirst:
    """Coarse grids, then the attack itself from where they ended."""

    grids: Grids = field(default_factory=Grids)

    def run(
        self,
        attack: "Inversion",
        observations: Sequence[Observation],
        rng: torch.Generator,
        on_iteration: OnIteration,
        checkpoint: Checkpoint | None,
    ) -> list[Reconstruction]:
        """One observation after another. The guess's objective and trace are those of the pixels."""
        return _each(self._one, self.extra, attack, observations, rng, on_iteration, checkpoint)

    def extra(self, images: int) -> int:
        """Iterations beside the attack's own budget."""
        return self.grids.of(images).total

    def _one(
        self,
        attack: "Inversion",
        observation: Observation,
        seed: int,
        on_iteration: Callable[[int], None],
        checkpoint: Checkpoint | None,
    ) -> Reconstruction:
        assert observation.training is not None
        draws = generator(seed, digest(observation.update), "stages")
        alone = replace(attack, stages=None)
        begun, brought_on = _on_grids(self.grids, alone, observation, seed, draws, on_iteration, checkpoint)
        images = observation.training.images
        done = self.grids.of(images).total
        (guess,) = replace(alone, start=Given(brought_on), optimiser=self.grids.settled(attack.optimiser, images)).run(
            [observation],
            draws,
            _from(on_iteration, done),
            None if checkpoint is None else checkpoint.part("statistics"),
        )
        return replace(guess, start=begun)


@dataclass(frozen=True)
class StatisticsFirst:
    """Follows the statistics with the attack's own settings, then both terms for a few iterations by small steps.

    Far from the truth the gradient term only slows the statistics down, at three times their cost; near it the valley
    is narrow, and a long step leaves it. Labels, which the statistics do not know, go at the pace of the first stage.
    """

    iterations: int
    """With both terms."""
    lr: float
    grids: Grids = field(default_factory=Grids)

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
        return _each(self._one, self.extra, attack, observations, rng, on_iteration, checkpoint)

    def extra(self, images: int) -> int:
        """Iterations beside the attack's own budget."""
        return self.grids.of(images).total + self.iterations

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
        draws = generator(seed, digest(observation.update), "stages")
        begun, brought_on = _on_grids(self.grids, first, observation, seed, draws, on_iteration, checkpoint)
        images = observation.training.images
        done = self.grids.of(images).total
        first = replace(first, start=Given(brought_on), optimiser=self.grids.settled(attack.optimiser, images))
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
        return replace(last, start=begun, snapshots=guess.snapshots)


One = Callable[["Inversion", Observation, int, Callable[[int], None], Checkpoint | None], Reconstruction]


def _each(
    one: One,
    extra: Callable[[int], int],
    attack: "Inversion",
    observations: Sequence[Observation],
    rng: torch.Generator,
    on_iteration: OnIteration,
    checkpoint: Checkpoint | None,
) -> list[Reconstruction]:
    seed = int(torch.randint(2**62, (), generator=rng))
    parts = [attack.budget.iterations + extra(seen.training.images) for seen in observations if seen.training]
    found = []
    for k, observation in enumerate(observations):
        report = partial(_report, on_iteration, sum(parts[:k]), sum(parts))
        part = None if checkpoint is None else checkpoint.part(f"observation-{k}")
        found.append(one(attack, observation, seed, report, part))
    return found


def _on_grids(
    grids: Grids,
    attack: "Inversion",
    observation: Observation,
    seed: int,
    draws: torch.Generator,
    on_iteration: Callable[[int], None],
    checkpoint: Checkpoint | None,
) -> tuple[Tensor, Tensor]:
    """The attack's own start, and what the grids made of it by the attack's objective."""
    client = client_for(observation, attack.objective)
    begun = attack.start(observation, client.setup.shape, draws)
    logits = begun.new_zeros(client.setup.shape[0], client.setup.outputs)  # the statistics do not know them
    part = None if checkpoint is None else checkpoint.part("coarse")
    return begun, grids.of(len(begun))(
        client, begun, logits, attack.box, draws, on_iteration, part, digest(attack, observation, seed)
    )


def _report(on_iteration: OnIteration, done: int, iterations: int, iteration: int) -> None:
    on_iteration(done + iteration, iterations)


def _from(on_iteration: Callable[[int], None], done: int) -> OnIteration:
    return lambda iteration, iterations: on_iteration(done + iteration)

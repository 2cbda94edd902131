"""An attack in stages: coarse grids and the statistics first, which are cheap to follow, the gradient term last."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch

from fluoroscope.attacks.common.descent import Optimiser
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.common.initialisation import Given
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.common.running import Kept, Observations, OnIteration
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


@dataclass(frozen=True, eq=False)
class Turn:
    """One observation, and what all stages of the attack on it share."""

    observation: Observation
    seed: int
    draws: torch.Generator
    on_iteration: Callable[[int], None]
    checkpoint: Kept

    @property
    def images(self) -> int:
        """Of the client."""
        assert self.observation.training is not None
        return self.observation.training.images

    def play(self, attack: "Inversion", done: int, part: str) -> Reconstruction:
        """The attack alone, after so many iterations of the stages before it."""
        report = _from(self.on_iteration, done)
        (guess,) = attack.run([self.observation], self.draws, report, _part(self.checkpoint, part))
        return guess

    def coarse_first(self, grids: Grids, attack: "Inversion") -> Reconstruction:
        """Grids by the attack's objective, then the attack from where they ended; the guess's start is before both."""
        client = client_for(self.observation, attack.objective)
        begun = attack.start(self.observation, client.setup.shape, self.draws)
        logits = begun.new_zeros(client.setup.shape[0], client.setup.outputs)  # the statistics do not know them
        key = digest(attack, self.observation, self.seed)
        kept = _part(self.checkpoint, "coarse")
        coarse = grids.of(len(begun))
        brought_on = coarse(client, begun, logits, attack.box, self.draws, self.on_iteration, kept, key)
        settled = grids.settled(attack.optimiser, self.images)
        fine = replace(attack, start=Given(brought_on), optimiser=settled)
        return replace(self.play(fine, grids.of(self.images).total, "statistics"), start=begun)


class Stages(Protocol):
    """How an attack goes about one observation."""

    def extra(self, images: int) -> int:
        """Iterations beside the attack's own budget."""
        ...

    def play(self, attack: "Inversion", turn: Turn) -> Reconstruction: ...


@dataclass(frozen=True)
class CoarseFirst:
    """Coarse grids, then the attack itself from where they ended."""

    grids: Grids = field(default_factory=Grids)

    def extra(self, images: int) -> int:
        return self.grids.of(images).total

    def play(self, attack: "Inversion", turn: Turn) -> Reconstruction:
        """The guess's objective and trace are those of the pixels."""
        return turn.coarse_first(self.grids, replace(attack, stages=None))


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

    def extra(self, images: int) -> int:
        return self.grids.of(images).total + self.iterations

    def play(self, attack: "Inversion", turn: Turn) -> Reconstruction:
        """The guess's objective and trace are those of the last stage, its start is the attack's."""
        assert isinstance(attack.objective, Objective)
        assert isinstance(attack.optimiser, Adam)
        steps = attack.objective.steps
        # Far from the truth, unrolling puts later steps at wrong weights.
        alone = replace(attack.objective, distance=None, steps="interpolated" if steps == "unrolled" else steps)
        guess = turn.coarse_first(self.grids, replace(attack, objective=alone, stages=None))
        both = self.last(attack, guess)
        last = turn.play(both, self.grids.of(turn.images).total + attack.budget.iterations, "both")
        return replace(last, start=guess.start, snapshots=guess.snapshots)

    def last(self, attack: "Inversion", guess: Reconstruction) -> "Inversion":
        """Both terms, from a guess on."""
        assert isinstance(attack.optimiser, Adam)
        return replace(
            attack,
            start=Given(guess.images),
            optimiser=replace(attack.optimiser, lr=self.lr),
            label_pace=attack.label_pace * attack.optimiser.lr / self.lr,
            schedule=Schedule(warmup=5, decay="cosine"),
            budget=Budget(self.iterations),
            restarts=1,
            stages=None,
        )


def in_stages(
    stages: Stages,
    attack: "Inversion",
    observations: Observations,
    rng: torch.Generator,
    on_iteration: OnIteration,
    checkpoint: Kept,
) -> list[Reconstruction]:
    """All stages, one observation after another."""
    seed = int(torch.randint(2**62, (), generator=rng))
    parts = [attack.budget.iterations + stages.extra(seen.training.images) for seen in observations if seen.training]
    found = []
    for k, observation in enumerate(observations):
        draws = generator(seed, digest(observation.update), "stages")
        report = partial(_report, on_iteration, sum(parts[:k]), sum(parts))
        turn = Turn(observation, seed, draws, report, _part(checkpoint, f"observation-{k}"))
        found.append(stages.play(attack, turn))
    return found


def _part(checkpoint: Kept, name: str) -> Kept:
    return None if checkpoint is None else checkpoint.part(name)


def _report(on_iteration: OnIteration, done: int, iterations: int, iteration: int) -> None:
    on_iteration(done + iteration, iterations)


def _from(on_iteration: Callable[[int], None], done: int) -> OnIteration:
    return lambda iteration, iterations: on_iteration(done + iteration)

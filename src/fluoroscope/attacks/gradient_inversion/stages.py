"""An attack in stages: coarse grids and the statistics first, which are cheap to follow, the gradient term last."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch

from fluoroscope.attacks.common.descent import Optimiser
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.common.initialisation import Given, GivenEach
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.common.running import Kept, Observations, OnIteration
from fluoroscope.attacks.gradient_inversion.coarse import CoarseToFine
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.attacks.gradient_inversion.simulated_clients.dispatch import blocks, client_for, row_evaluation
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
    """One observation among those of a gang, and what is its own."""

    observation: Observation
    draws: torch.Generator
    checkpoint: Kept


@dataclass(frozen=True, eq=False)
class Gang:
    """Observations that follow the statistics side by side, and then go on by themselves, one after another."""

    turns: Sequence[Turn]
    seed: int
    on_iteration: Callable[[int], None]
    """Of each member's iterations, one member's after another's."""
    checkpoint: Kept
    """For what they do together."""

    @property
    def images(self) -> int:
        """Of each client."""
        training = self.turns[0].observation.training
        assert training is not None
        return training.images

    def alone(self, attack: "Inversion", number: int, done: int, part: str) -> Reconstruction:
        """The attack on one of them alone, after so many iterations of all."""
        turn, size = self.turns[number], len(self.turns)
        report = _from(self.on_iteration, size * done + number * attack.budget.iterations)
        (guess,) = attack.run([turn.observation], turn.draws, report, _part(turn.checkpoint, part))
        return guess

    def coarse_first(self, grids: Grids, attack: "Inversion") -> list[Reconstruction]:
        """Grids by the attack's objective, then the attack from where they ended; a guess's start is before both."""
        observations = [turn.observation for turn in self.turns]
        others = (client_for(observation, attack.objective) for observation in observations)  # a network each: not kept
        client = next(others)
        shape = client.setup.shape
        begun = torch.stack([attack.start(turn.observation, shape, turn.draws) for turn in self.turns])
        logits = begun.new_zeros(len(begun), shape[0], client.setup.outputs)  # the statistics do not know them
        coarse = grids.of(self.images)
        brought_on = coarse(
            row_evaluation(client, others, torch.arange(len(begun)), attack.memory),
            begun,
            logits,
            attack.box,
            [turn.draws for turn in self.turns],
            self._together(0),
            _part(self.checkpoint, "coarse"),
            digest(attack, observations, self.seed),
        )
        starts = GivenEach({digest(seen.update): x for seen, x in zip(observations, brought_on, strict=True)})
        fine = replace(attack, start=starts, optimiser=grids.settled(attack.optimiser, self.images))
        first, *rest = (turn.draws for turn in self.turns)
        for draws in rest:  # a run draws once: what comes later is the same whoever stands beside
            torch.randint(2**62, (), generator=draws)
        kept, total = _part(self.checkpoint, "statistics"), coarse.total
        report = self._together(total)
        found = fine.run(observations, first, lambda iteration, iterations: report(iteration), kept)
        return [replace(guess, start=start) for guess, start in zip(found, begun, strict=True)]

    def _together(self, done: int) -> Callable[[int], None]:
        """An iteration of all is one of each."""
        return lambda iteration: self.on_iteration(len(self.turns) * (done + iteration))


class Stages(Protocol):
    """How an attack goes about a gang of observations."""

    def extra(self, images: int) -> int:
        """Iterations beside the attack's own budget."""
        ...

    def play(self, attack: "Inversion", gang: Gang) -> list[Reconstruction]: ...


@dataclass(frozen=True)
class CoarseFirst:
    """Coarse grids, then the attack itself from where they ended."""

    grids: Grids = field(default_factory=Grids)

    def extra(self, images: int) -> int:
        return self.grids.of(images).total

    def play(self, attack: "Inversion", gang: Gang) -> list[Reconstruction]:
        """A guess's objective and trace are those of the pixels."""
        return gang.coarse_first(self.grids, replace(attack, stages=None))


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

    def play(self, attack: "Inversion", gang: Gang) -> list[Reconstruction]:
        """A guess's objective and trace are those of the last stage, its start is the attack's."""
        guesses = gang.coarse_first(self.grids, replace(attack, objective=statistics_alone(attack), stages=None))
        done = self.grids.of(gang.images).total + attack.budget.iterations
        lasts = [gang.alone(self.last(attack, guess), k, done, "both") for k, guess in enumerate(guesses)]
        pairs = zip(lasts, guesses, strict=True)
        return [replace(last, start=guess.start, snapshots=guess.snapshots) for last, guess in pairs]

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


def statistics_alone(attack: "Inversion") -> Objective:
    """The attack's objective without its gradient term."""
    assert isinstance(attack.objective, Objective)
    steps = attack.objective.steps
    # Far from the truth, unrolling puts later steps at wrong weights.
    return replace(attack.objective, distance=None, steps="interpolated" if steps == "unrolled" else steps)


def in_stages(
    stages: Stages,
    attack: "Inversion",
    observations: Observations,
    rng: torch.Generator,
    on_iteration: OnIteration,
    checkpoint: Kept,
) -> list[Reconstruction]:
    """All stages, one gang after another."""
    seed = int(torch.randint(2**62, (), generator=rng))
    parts = [attack.budget.iterations + stages.extra(seen.training.images) for seen in observations if seen.training]
    timed = attack.budget.seconds is not None  # each has its own time
    gangs = [[k] for k in range(len(parts))] if timed else blocks(observations, statistics_alone(attack))
    found: dict[int, Reconstruction] = {}
    for members in gangs:
        report = partial(_report, on_iteration, sum(parts[k] for k in found), sum(parts))
        turns = [_turn(observations[k], k, seed, checkpoint) for k in members]
        together = _part(checkpoint, f"gang-{members[0]}")
        found |= zip(members, stages.play(attack, Gang(turns, seed, report, together)), strict=True)
    return [found[k] for k in range(len(parts))]


def _turn(observation: Observation, number: int, seed: int, checkpoint: Kept) -> Turn:
    draws = generator(seed, digest(observation.update), "stages")
    return Turn(observation, draws, _part(checkpoint, f"observation-{number}"))


def _part(checkpoint: Kept, name: str) -> Kept:
    return None if checkpoint is None else checkpoint.part(name)


def _report(on_iteration: OnIteration, done: int, iterations: int, iteration: int) -> None:
    on_iteration(done + iteration, iterations)


def _from(on_iteration: Callable[[int], None], done: int) -> OnIteration:
    return lambda iteration, iterations: on_iteration(done + iteration)

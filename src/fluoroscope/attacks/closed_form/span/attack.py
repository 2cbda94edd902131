"""The attack: from an observation to its images, by way of their features."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.closed_form.span.client import Client, ShowsNothing, check_one_epoch
from fluoroscope.attacks.closed_form.span.pixels import FeatureObjective, Weights
from fluoroscope.attacks.common.checkpoint import FileKeeper
from fluoroscope.attacks.common.engine import Budget, Outcome, descend
from fluoroscope.attacks.common.initialisation import PriorImage, smooth_noise
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.common.running import Kept, Observations, OnIteration, silent
from fluoroscope.attacks.gradient_inversion.coarse import CoarseToFine
from fluoroscope.attacks.gradient_inversion.row_layout import one_by_one
from fluoroscope.attacks.registry import ATTACKS
from fluoroscope.digest import digest
from fluoroscope.rng import generator
from fluoroscope.threat_models.needs import require
from fluoroscope.types import Capability, Observation, Reconstruction

REACHED = 0.05
"""A relative misfit above this says that the descent did not reach the features: the image gets another start."""
MISSED = 0.15
"""Above this an image has other features than those that were found, and is not given out."""
RESTART = 0.2
"""Standard deviation of what a third start adds to the prior."""
SIZE = 64
"""Pixels for which `variation` is given: the mean difference of neighbours shrinks as images grow."""


@dataclass(frozen=True)
class Span:
    """Closed-form features, then the images that have them."""

    weights: Weights = field(default_factory=lambda: Weights(statistics=2.0, variation=1.5, colour=1.0))
    """Those of pixels at a size of 64; they grow with the size, as neighbours come to differ less."""
    optimiser: Adam = field(default_factory=lambda: Adam(0.1))
    schedule: Schedule = field(default_factory=lambda: Schedule(warmup=10, decay="cosine"))
    budget: Budget = field(default_factory=lambda: Budget(200))
    coarse: CoarseToFine = field(default_factory=lambda: CoarseToFine(iterations=80, noise=0.0))
    """Where later descents start from, by half the steps: a long one would leave what the grids found."""
    restarts: int = 2
    """At most; another descent follows while some image's features are not reached."""

    check = staticmethod(check_one_epoch)

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset(
            {
                Capability.ARCHITECTURE,
                Capability.TRAINING,
                Capability.GLOBAL_STATE,
                Capability.UPDATE,
                Capability.PRIOR,
            }
        )

    def run(
        self, observations: Observations, rng: Generator, on_iteration: OnIteration = silent, checkpoint: Kept = None
    ) -> list[Reconstruction]:
        """A reconstruction for every observation, one after another. It may hold fewer images than the client has."""
        for observation in observations:
            require("span", observation, sorted(self.needs))
            self.check(observation)
        seed = int(torch.randint(2**62, (), generator=rng))
        found = []
        for number, observation in enumerate(observations):
            report = partial(_report, on_iteration, number, len(observations), self.budget.iterations)
            keeper = None if checkpoint is None else checkpoint.keeper(number, digest(self, observation, seed))
            found.append(self._one(observation, seed, report, keeper))
        return found

    def _one(
        self,
        observation: Observation,
        seed: int,
        on_iteration: Callable[[int], None],
        keeper: FileKeeper | None,
    ) -> Reconstruction:
        rng = generator(seed, digest(observation.update), "span")
        client = Client(observation)
        prior = PriorImage()(observation, (1, *client.shape), rng)
        try:
            target = client.target(rng)
        except ShowsNothing as reason:
            return Reconstruction(prior, None, math.inf, nothing=str(reason))
        wider = max(client.shape[1:]) / SIZE
        weights = replace(self.weights, variation=self.weights.variation * wider, colour=self.weights.colour * wider)
        objective = FeatureObjective(client, target, weights)
        start, reached = prior.repeat(len(target.maps), 1, 1, 1), []
        for restart in range(self.restarts):
            optimiser = self.optimiser if restart == 0 else replace(self.optimiser, lr=self.optimiser.lr / 2)
            outcome = self._descend(objective, start, optimiser, on_iteration, keeper if restart == 0 else None)
            reached.append(outcome)
            best = min(reached, key=lambda outcome: float(outcome.values)).best.view_as(start)
            missed = objective.misfits(best) > REACHED
            if not missed.any():
                break
            if restart + 1 < self.restarts:
                start = torch.where(missed[:, None, None, None], prior, best)
                if restart:  # the grids were there from the prior itself
                    bumps = RESTART * smooth_noise((len(start), *client.shape), rng)
                    start = torch.where(missed[:, None, None, None], (start + bumps).clamp(0, 1), best)
                logits = start.new_zeros(1, len(start), 1)
                (start,) = self.coarse(one_by_one([objective]), start[None], logits, (0.0, 1.0), [rng], lambda _: None)
        outcome = min(reached, key=lambda outcome: float(outcome.values))
        misfits = objective.misfits(outcome.best.view_as(start))
        guess = Reconstruction(
            images=outcome.best.view_as(start)[misfits <= MISSED],
            labels=None,
            objective=float(outcome.values),
            restarts=tuple(float(outcome.values) for outcome in reached),
            trace=tuple(outcome.traces[:, 0].tolist()),
            start=outcome.start.view_as(start),
            last=outcome.last.view_as(start),
            diverged=bool(outcome.diverged),
        )
        if len(guess.images):
            return guess
        return replace(
            guess,
            images=prior,
            nothing=f"the update shows features of {len(misfits)} images at {target.layer}, but no image was found "
            f"that has them: the nearest is off by {float(misfits.min()):.0%} of their norm, and {MISSED:.0%} at most "
            "counts as found.",
        )

    def _descend(
        self,
        objective: FeatureObjective,
        start: Tensor,
        optimiser: Adam,
        on_iteration: Callable[[int], None],
        keeper: FileKeeper | None,
    ) -> Outcome:
        return descend(
            objective,
            start.flatten()[None],
            optimiser,
            self.schedule,
            self.budget,
            lambda x: x.clamp(0, 1),
            on_iteration,
            keeper=keeper,
        )


def _report(on_iteration: OnIteration, descent: int, descents: int, iterations: int, iteration: int) -> None:
    on_iteration(descent * iterations + iteration, descents * iterations)


ATTACKS.add("span", Span())

"""An optimisation attack is a choice of parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fluoroscope.attacks.inversion.engine import Budget, descend, one_by_one
from fluoroscope.attacks.inversion.initialisation import Initialisation, PriorImage
from fluoroscope.attacks.inversion.label_handling import LabelHandling, Optimised
from fluoroscope.attacks.inversion.optimisers import Adam, Schedule
from fluoroscope.attacks.inversion.simulation import Objective, OneStep
from fluoroscope.attacks.needs import require
from fluoroscope.types import Capability, Observation, Reconstruction


@dataclass(frozen=True)
class Inversion:
    """Start, labels, objective, optimiser and budget; the best of several restarts by the attack's own objective."""

    objective: Objective
    start: Initialisation = field(default_factory=PriorImage)
    labels: LabelHandling = field(default_factory=Optimised)
    optimiser: Adam = field(default_factory=lambda: Adam(0.1))
    schedule: Schedule = field(default_factory=lambda: Schedule(warmup=20, decay="cosine"))
    budget: Budget = field(default_factory=lambda: Budget(300))
    restarts: int = 1

    @property
    def needs(self) -> frozenset[Capability]:
        from_prior = {Capability.PRIOR} if isinstance(self.start, PriorImage) else set()
        return self.objective.needs | self.labels.needs | from_prior

    def run(
        self,
        observations: Sequence[Observation],
        rng: torch.Generator,
        on_iteration: Callable[[int, int], None] = lambda iteration, iterations: None,
    ) -> list[Reconstruction]:
        """A reconstruction for every observation. Observations of different shapes run one after another."""
        return [self._one(observation, rng, on_iteration) for observation in observations]

    def _one(
        self, observation: Observation, rng: torch.Generator, on_iteration: Callable[[int, int], None]
    ) -> Reconstruction:
        require("this attack", observation, sorted(self.needs))
        client = OneStep(observation, self.objective)
        order = [name for name, _ in client.model.named_parameters()]
        images = torch.stack([self.start(observation, client.shape, rng) for _ in range(self.restarts)])
        logits = torch.stack([self.labels(observation, order, client.classes, rng) for _ in range(self.restarts)])

        def evaluate(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            value, to_images, to_logits = client.evaluate(x, y)
            return value, to_images, to_logits if self.labels.optimised else torch.zeros_like(y)

        outcome = descend(
            one_by_one([evaluate] * self.restarts),
            images,
            logits,
            self.optimiser,
            self.schedule,
            self.budget,
            on_iteration=lambda i: on_iteration(i, self.budget.iterations),
        )
        chosen = int(outcome.values.argmin())
        return Reconstruction(
            images=outcome.images[chosen],
            labels=outcome.logits[chosen].argmax(1),
            objective=float(outcome.values[chosen]),
            restarts=tuple(outcome.values.tolist()),
            trace=tuple(outcome.traces[:, chosen].tolist()),
        )

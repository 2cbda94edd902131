"""An optimisation attack is a choice of parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.common.checkpoint import Checkpoint, FileKeeper
from fluoroscope.attacks.common.descent import Optimiser
from fluoroscope.attacks.common.engine import Budget, Outcome, descend
from fluoroscope.attacks.common.initialisation import Given, GivenEach, Initialisation, PriorImage, smooth_noise
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.common.running import Kept, Observations, OnIteration, silent
from fluoroscope.attacks.gradient_inversion.evidence import check_statistics, gives_statistics
from fluoroscope.attacks.gradient_inversion.group import grouped
from fluoroscope.attacks.gradient_inversion.label_handling import LabelHandling, Optimised
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.attacks.gradient_inversion.regularisers import GroupConsistency
from fluoroscope.attacks.gradient_inversion.row_layout import Client, Layout
from fluoroscope.attacks.gradient_inversion.simulated_clients.dispatch import (
    AnyObjective,
    blocks,
    client_for,
    row_evaluation,
)
from fluoroscope.attacks.gradient_inversion.stages import CoarseFirst, StatisticsFirst, in_stages
from fluoroscope.attacks.gradient_inversion.surrogate import LearnedPoints
from fluoroscope.digest import digest
from fluoroscope.errors import Misconfigured
from fluoroscope.rng import generator
from fluoroscope.threat_models.needs import require
from fluoroscope.types import Capability, Observation, Reconstruction


@dataclass(frozen=True)
class Inversion:
    """Start, labels, objective, optimiser and budget; the best of several restarts by the attack's own objective."""

    objective: AnyObjective
    start: Initialisation = field(default_factory=PriorImage)
    labels: LabelHandling = field(default_factory=Optimised)
    optimiser: Optimiser[Any] = field(default_factory=lambda: Adam(0.1))
    schedule: Schedule = field(default_factory=lambda: Schedule(warmup=20, decay="cosine"))
    budget: Budget = field(default_factory=lambda: Budget(300))
    restarts: int = 1
    box: tuple[float, float] | None = (0.0, 1.0)
    """What pixels are held to. DLG and P4 hold them to nothing, and their images may leave [0, 1]."""
    label_pace: float = 1.0
    """How far a label's logit moves for a pixel's step of 1."""
    grey: bool = False
    """Holds the channels of a colour image alike: X-rays that a network takes as three channels (P1 fig. 3)."""
    bare: Objective | None = None
    """What is minimised where the BatchNorm statistics were withheld; None leaves that term out and no more."""
    stages: StatisticsFirst | CoarseFirst | LearnedPoints | None = None
    """Coarse grids first; and where both terms are compared, the gradient term in a last, short stage only. None goes
    by pixels and has all terms throughout."""
    group: GroupConsistency | None = None
    """Draws the restarts of one observation towards their mean."""
    snapshots: int | None = None
    """Keep the images every so many iterations."""
    memory: int = 4 * 2**30
    """Bytes that the rows evaluated at once may take."""
    name: str = "this attack"
    """What error messages call it."""

    def __post_init__(self) -> None:
        if (self.box is not None or self.grey) and not self.optimiser.keeps_to_a_box:
            kind = type(self.optimiser).__name__
            raise Misconfigured(f"{kind} cannot keep to a box or to grey: set box=None and grey=False, or use Adam.")
        for key in ("restarts", "snapshots", "memory"):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise Misconfigured(f"{key} must be at least 1, not {value}.")

    @property
    def needs(self) -> frozenset[Capability]:
        return self.objective.needs | self.labels.needs | self.start.needs

    def check(self, observation: Observation) -> None:
        objective = self.objective
        if isinstance(objective, Objective) and objective.batchnorm_weight and objective.distance is None:
            check_statistics(observation)

    def run(
        self, observations: Observations, rng: Generator, on_iteration: OnIteration = silent, checkpoint: Kept = None
    ) -> list[Reconstruction]:
        """A reconstruction for every observation; those that can be vectorised together run as one computation.

        An observation's draws depend on `rng`, on the update that was seen and on the number of the restart, so they
        are the same whichever other observations stand beside it.
        """
        for observation in observations:
            require(self.name, observation, sorted(self.needs))
        both = isinstance(self.objective, Objective) and self.objective.compares_both
        if both and not all(gives_statistics(observation) for observation in observations):
            return self._apart(observations, rng, on_iteration, checkpoint)
        if self.stages is not None and (both or isinstance(self.stages, CoarseFirst)):
            return in_stages(self.stages, self, observations, rng, on_iteration, checkpoint)
        seed = int(torch.randint(2**62, (), generator=rng))
        found: dict[int, Reconstruction] = {}
        together = blocks(observations, self.objective)
        for number, indices in enumerate(together):
            part = [observations[i] for i in indices]
            keeper = None if checkpoint is None else checkpoint.keeper(number, digest(self, part, seed))
            report = partial(_report, on_iteration, number, len(together), self.budget.iterations)
            found |= zip(indices, self._side_by_side(part, seed, report, keeper), strict=True)
        return [found[i] for i in range(len(observations))]

    def _apart(
        self,
        observations: Sequence[Observation],
        rng: torch.Generator,
        on_iteration: OnIteration,
        checkpoint: Checkpoint | None,
    ) -> list[Reconstruction]:
        """Clients whose statistics were withheld by the other objective, the rest as if they were alone."""
        assert isinstance(self.objective, Objective)
        objective = self.bare or replace(self.objective, batchnorm_weight=0.0)
        found: dict[int, Reconstruction] = {}
        whole = [i for i, observation in enumerate(observations) if gives_statistics(observation)]
        rest = [i for i in range(len(observations)) if i not in whole]
        kinds = {"whole": (self, whole), "bare": (replace(self, objective=objective), rest)}
        for name, (attack, indices) in kinds.items():
            if indices:
                part = None if checkpoint is None else checkpoint.part(name)
                draws = rng.clone_state()
                found |= zip(
                    indices, attack.run([observations[i] for i in indices], draws, on_iteration, part), strict=True
                )
        return [found[i] for i in range(len(observations))]

    def _side_by_side(
        self,
        observations: Sequence[Observation],
        seed: int,
        on_iteration: Callable[[int], None],
        keeper: FileKeeper | None,
    ) -> list[Reconstruction]:
        clients = (client_for(observation, self.objective) for observation in observations)
        first = next(clients)
        owner = torch.arange(len(observations)).repeat_interleave(self.restarts)
        drawn = [self._start(observations[i], first, seed, row % self.restarts) for row, i in enumerate(owner)]
        images, logits = (torch.stack(parts) for parts in zip(*drawn, strict=True))
        layout = Layout(first.setup.shape, logits, self.labels.optimised, self.label_pace)
        evaluate = row_evaluation(first, clients, owner, self.memory)
        outcome = descend(
            layout.over(evaluate if self.group is None else grouped(evaluate, self.group, owner)),
            layout.join(images, logits),
            self.optimiser,
            self.schedule,
            self.budget,
            partial(layout.project, box=self.box, grey=self.grey),
            on_iteration,
            self.snapshots,
            keeper,
        )
        multi = first.setup.training.loss.multi_label
        found = [_chosen(outcome, layout, owner == i, multi) for i in range(len(observations))]
        blind = isinstance(self.objective, Objective) and self.objective.distance is None
        return [replace(guess, labels=None) for guess in found] if blind else found  # statistics know no labels

    def _start(self, observation: Observation, client: Client, seed: int, restart: int) -> tuple[Tensor, Tensor]:
        rng = generator(seed, digest(observation.update), "restart", restart)
        shape = client.setup.shape
        images = self.start(observation, shape, rng)
        if (
            restart and isinstance(self.start, PriorImage | Given | GivenEach) and shape[0] == 1
        ):  # or it would repeat the first
            images = (images + self.start.noise * smooth_noise(shape, rng).to(images)).clamp(0, 1)
        device = next(iter((observation.state_before or {}).values())).device
        return images.to(device), self.labels(client.setup, rng).to(device)


def _report(on_iteration: OnIteration, descent: int, descents: int, iterations: int, iteration: int) -> None:
    on_iteration(descent * iterations + iteration, descents * iterations)


def _chosen(outcome: Outcome, layout: Layout, mine: Tensor, multi_label: bool) -> Reconstruction:
    """The restart of the lowest objective among one observation's rows."""
    rows = mine.nonzero().squeeze(1)
    row = rows[outcome.values[rows].argmin()][None]

    def images(x: Tensor) -> Tensor:
        return layout.images(x[row])[0]

    logits = layout.labels(outcome.best[row], row)[0]
    return Reconstruction(
        images=images(outcome.best),
        labels=(logits > 0).long() if multi_label else logits.argmax(1),
        objective=float(outcome.values[row]),
        restarts=tuple(outcome.values[rows].tolist()),
        trace=tuple(outcome.traces[:, row[0]].tolist()),
        start=images(outcome.start),
        last=images(outcome.last),
        snapshots={iterations: images(x) for iterations, x in outcome.snapshots.items()},
        diverged=bool(outcome.diverged[row]),
    )

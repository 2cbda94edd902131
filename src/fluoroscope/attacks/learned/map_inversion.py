"""The most probable images behind BatchNorm's statistics: a prior and a noise that were both learned by simulation.

Maximise log p(images) + log p(statistics seen | images): a Gaussian prior of the public images (`image_prior`), and the
statistics that the images would give (`batch_statistics_model`) with the error that simulated rounds show, defence and
all (`noise_model`). Without noise this is P1's matching of statistics, from coarse to fine; as noise grows, what is not
known any more falls back to the public mean.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.common.checkpoint import FileKeeper
from fluoroscope.attacks.common.engine import Budget, descend
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.common.running import Kept, Observations, OnIteration, silent
from fluoroscope.attacks.gradient_inversion.evidence import check_statistics
from fluoroscope.attacks.learned.batch_statistics_model import AT_ONCE, BatchStatisticsModel
from fluoroscope.attacks.learned.evidence import SIZES, STATISTICS
from fluoroscope.attacks.learned.image_prior import ImagePrior
from fluoroscope.attacks.learned.learning import NEEDS, Lesson, lessons
from fluoroscope.attacks.learned.noise_model import NoiseModel
from fluoroscope.attacks.learned.simulated_rounds import learnt_from
from fluoroscope.attacks.registry import ATTACKS
from fluoroscope.digest import digest
from fluoroscope.rng import generator
from fluoroscope.types import Capability, Observation, Reconstruction

BEYOND = 100.0
"""Weight of the squared distance of pixels from [0, 1]."""


@dataclass(frozen=True)
class MapInversion:
    """Maximum a posteriori images, for all observations of one kind of client at once."""

    share: float = 0.9
    """Of the prior that is the public images' own covariance."""
    floor: float = 0.1
    """Deviation, in units of what differs between clients, to which statistics have to agree at most."""
    optimiser: Adam = field(default_factory=lambda: Adam(0.1))
    schedule: Schedule = field(default_factory=lambda: Schedule(warmup=10, decay="cosine"))
    budget: Budget = field(default_factory=lambda: Budget(150))
    apart: float = 0.3
    """Standard deviation of the start, in the prior's own, where several images must part ways."""

    @property
    def needs(self) -> frozenset[Capability]:
        return NEEDS | {Capability.BUFFERS}

    def check(self, observation: Observation) -> None:
        check_statistics(observation)

    def run(
        self, observations: Observations, rng: Generator, on_iteration: OnIteration = silent, checkpoint: Kept = None
    ) -> list[Reconstruction]:
        """A guess for each observation, side by side."""
        iterations = self.budget.iterations
        found: dict[int, Reconstruction] = {}
        asked = lessons("map-inversion", observations, rng, on_iteration, checkpoint, self.needs, iterations)
        for number, lesson in enumerate(asked):
            keeper = None if checkpoint is None else checkpoint.keeper(number, digest(self, lesson.observations))
            found |= zip(lesson.places, self._guesses(lesson, keeper), strict=True)
        return [found[place] for place in range(len(observations))]

    def _guesses(self, lesson: Lesson, keeper: FileKeeper | None) -> list[Reconstruction]:
        posterior = Posterior.of(lesson, self.share, self.floor)
        start = torch.stack([self._start(posterior, observation) for observation in lesson.observations])
        found = descend(
            posterior.evaluate,
            start.flatten(1),
            self.optimiser,
            self.schedule,
            self.budget,
            on_iteration=lesson.report,
            keeper=keeper,
        )
        begun, best, last = (posterior.images(x).clamp(0, 1) for x in (found.start, found.best, found.last))
        return [
            Reconstruction(
                images=best[row],
                labels=None,
                objective=float(found.values[row]),
                restarts=(float(found.values[row]),),
                trace=tuple(found.traces[:, row].tolist()),
                start=begun[row],
                last=last[row],
                diverged=bool(found.diverged[row]),
            )
            for row in range(len(best))
        ]

    def _start(self, posterior: "Posterior", observation: Observation) -> Tensor:
        """The public mean, or as many images near it as the client has."""
        count, size = posterior.count, posterior.prior.coordinates
        if count == 1:
            return torch.zeros(1, size)
        rng = generator(0, "map-inversion", digest(observation.buffers_after))
        return self.apart * torch.randn((count, size), generator=rng)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Minus the logarithm of the posterior, of several clients, in the prior's coordinates of their images."""

    prior: ImagePrior
    model: BatchStatisticsModel
    seen: Tensor
    """(clients, values), without the bias."""
    precision: Tensor
    """(clients, values): one over each deviation."""
    count: int
    """Images per client."""

    @classmethod
    def of(cls, lesson: Lesson, share: float, floor: float) -> "Posterior":
        public, _ = learnt_from(lesson.observations[0])
        model = BatchStatisticsModel(lesson.setup, lesson.evidence.buffers)
        rounds, now = lesson.rounds, lesson.seen()
        columns = lesson.evidence.columns(model.buffers)
        with torch.no_grad():
            expected = model.changes(rounds.images)
        noise = NoiseModel.of(rounds.evidence[STATISTICS][:, columns], expected, _sizes(rounds.evidence), floor)
        return cls(
            prior=ImagePrior.of(public.images, share),
            model=model,
            seen=(now[STATISTICS][:, columns] - noise.bias).float(),
            precision=(1 / noise.deviations(_sizes(now))).float(),
            count=rounds.images.shape[1],
        )

    def images(self, x: Tensor) -> Tensor:
        """(clients, images, channels, height, width) at (clients, images * coordinates)."""
        flat = self.prior.images(x.view(-1, self.prior.coordinates))
        return flat.view(len(x), self.count, *flat.shape[1:])

    def evaluate(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The value and its gradient for the clients `rows`, as many at once as fit into a pass of the network."""
        per_pass = max(1, AT_ONCE // self.count)
        parts = zip(torch.split(x, per_pass), torch.split(rows, per_pass), strict=True)
        found = [self._evaluate(*each) for each in parts]
        values, gradients = zip(*found, strict=True)
        return torch.cat(values), torch.cat(gradients)

    def _evaluate(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            images = self.images(x)
            apart = (self.model.changes(images) - self.seen[rows]) * self.precision[rows]
            beyond = (images - images.clamp(0, 1)).flatten(1).square().sum(1)
            values = (apart.square().sum(1) + x.square().sum(1)) / 2 + BEYOND * beyond
            (gradient,) = torch.autograd.grad(values.sum(), x)
        return values.detach(), gradient


def _sizes(evidence: Mapping[str, Tensor]) -> Tensor:
    """(clients,): the norm of all that is seen of each update."""
    return evidence[SIZES].exp().square().sum(1).sqrt()


ATTACKS.add("map-inversion", MapInversion())

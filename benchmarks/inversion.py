"""P4's attack on LeNet-5, side by side against one by one, and R-GAP: `python -m benchmarks inversion`.

One by one is what P4's code does: autograd's double backward and `torch.optim.LBFGS`, an image at a time. It runs on
two of the images, before and after the rows side by side, so that a noisy neighbour disturbs both.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import torch
from skimage.metrics import structural_similarity
from torch import Tensor, nn

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.common.descent import Evaluate
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.common.initialisation import TransformedGaussian
from fluoroscope.attacks.common.lbfgs import BatchedLbfgs, LbfgsState
from fluoroscope.attacks.gradient_inversion.distances import SquaredL2
from fluoroscope.data import Request, load
from fluoroscope.models import Architecture
from fluoroscope.studies.p4.one_by_one import OneByOne
from fluoroscope.threat_models import THREATS
from fluoroscope.types import LocalTraining, Observation, Sgd

IMAGES, ITERATIONS = 100, 100
CLASSES = 100
"""P4's network has about 85,000 parameters, which means as many outputs."""


@dataclass(frozen=True)
class Counted:
    """An optimiser that keeps count of the rows it has had evaluated."""

    inner: BatchedLbfgs
    evaluations: list[int] = field(default_factory=list)
    keeps_to_a_box: bool = False

    def init(self, x: Tensor) -> LbfgsState:
        return self.inner.init(x)

    def step(
        self, x: Tensor, state: LbfgsState, evaluate: Evaluate, factor: float
    ) -> tuple[Tensor, LbfgsState, Tensor]:
        def counted(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
            self.evaluations.append(len(rows))
            return evaluate(x, rows)

        return self.inner.step(x, state, counted, factor)


def gradient(model: nn.Module, image: Tensor, label: Tensor, create_graph: bool = False) -> list[Tensor]:
    loss = nn.functional.cross_entropy(model(image), label)
    return list(torch.autograd.grad(loss, list(model.parameters()), create_graph=create_graph))


def observed(model: nn.Module, architecture: Architecture, image: Tensor, label: Tensor) -> Observation:
    """P4's client sends the gradient itself."""
    names = [name for name, _ in model.named_parameters()]
    update = {n: -g for n, g in zip(names, gradient(model, image[None], label[None]), strict=True)}
    state = {name: value.detach() for name, value in model.state_dict().items()}
    training = LocalTraining(Sgd(1.0), 1, 1)
    return Observation(THREATS.get("curious-server"), 1, ("c",), architecture, training, state, update, {}, {})


def converged(image: Tensor, start: Tensor, truth: Tensor) -> bool:
    """P4: the MSE ended below where it began, and below 2. NaN did not."""
    before, after = (float((x[0] - truth).square().mean()) for x in (start, image))
    return after < before and after < 2


def ssim(image: Tensor, truth: Tensor) -> float:
    kind = {"data_range": 1, "gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    return float(structural_similarity(image[0, 0].double().numpy(), truth[0].double().numpy(), **kind))


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock, and of the processors: the second is the steadier one beside noisy neighbours."""

    wall: float
    cpu: float

    def over(self, count: float) -> "Cost":
        return Cost(self.wall / count, self.cpu / count)

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.wall + other.wall, self.cpu + other.cpu)

    def times(self, other: "Cost") -> str:
        return f"{self.wall / other.wall:.1f}x by the clock, {self.cpu / other.cpu:.1f}x of the processors"


T = TypeVar("T")


def timed(run: Callable[[], T]) -> tuple[T, Cost]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    return result, Cost(time.perf_counter() - wall, time.process_time() - cpu)


def main() -> None:
    data = load("phantom/chest", Request(size=32, images=IMAGES, seed=1))
    truths, labels = data.batch.images, data.batch.labels
    architecture = Architecture("lenet5", 1, CLASSES, 32)
    model = architecture.build()
    seen = [observed(model, architecture, x, y) for x, y in zip(truths, labels, strict=True)]
    attack = replace(ATTACKS.get("eucl-tg"), budget=Budget(ITERATIONS))
    rng = torch.Generator()

    closed = ATTACKS.get("r-gap")
    closed.run(seen[:1], rng)  # warms up
    exact, closed_cost = timed(lambda: closed.run(seen, rng))
    closed_cost = closed_cost.over(IMAGES)
    worst = min(ssim(r.images, t) for r, t in zip(exact, truths, strict=True))
    print(f"r-gap: {1e3 * closed_cost.wall:.0f} ms an image; SSIM at least {worst:.7f} (bar 0.999)", flush=True)

    alone_cost, evaluations, alone_failed = Cost(0, 0), 0, 0

    def one_alone(i: int) -> None:
        nonlocal alone_cost, evaluations, alone_failed
        counts: list[int] = []
        loop = OneByOne(SquaredL2(), TransformedGaussian(), ITERATIONS, evaluations=counts)
        (found,), cost = timed(lambda: loop.run(seen[i : i + 1], torch.Generator().manual_seed(i)))
        alone_cost, evaluations = alone_cost + cost, evaluations + sum(counts)
        alone_failed += not converged(found.last, found.start, truths[i])

    counted = Counted(BatchedLbfgs(lr=0.1))
    replace(attack, budget=Budget(1)).run(seen[:2], rng)  # warms up: tracing imports a great deal
    one_alone(0)
    found, cost = timed(lambda: replace(attack, optimiser=counted).run(seen, rng.manual_seed(0)))
    one_alone(1)

    together = cost.over(sum(counted.evaluations))
    alone = alone_cost.over(evaluations)
    failed = sum(r.diverged or not converged(r.last, r.start, t) for r, t in zip(found, truths, strict=True))
    median = torch.tensor([ssim(r.images, t) for r, t in zip(found, truths, strict=True)]).median()
    print(
        f"eucl-tg, LeNet-5, {IMAGES} images: {1e3 * together.wall:.2f} ms an evaluation side by side, "
        f"{1e3 * alone.wall:.2f} one by one (2 images): {alone.times(together)} (bar 8)"
    )
    print(
        f"  {cost.wall / IMAGES:.2f} s an image ({sum(counted.evaluations) / IMAGES:.0f} evaluations) against "
        f"{alone_cost.wall / 2:.2f} s ({evaluations / 2:.0f}); {failed} of {IMAGES} do not converge (bar 5), one by "
        f"one {alone_failed} of 2; median SSIM {median:.4f}"
    )
    print(f"r-gap against one by one: {alone_cost.over(2).times(closed_cost)} (bar 100)", flush=True)


if __name__ == "__main__":
    main()

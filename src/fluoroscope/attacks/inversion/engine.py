"""Runs many independent problems side by side: each with its own best iterate and stop, none seen by its neighbours."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.attacks.inversion.optimisers import Adam, Moments, Schedule

Evaluate = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""(images, logits of the labels, row numbers) of the rows that still run -> (values, image and logit gradients)."""


@dataclass(frozen=True)
class Budget:
    """When to stop: the first of these."""

    iterations: int
    seconds: float | None = None
    stagnation: int | None = None
    """Iterations without a new best value, problem by problem."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The best iterate of every problem by the attack's own objective. The first axis is the problem."""

    images: Tensor
    logits: Tensor
    values: Tensor
    traces: Tensor
    """(iterations, problems); NaN once a problem has stopped."""


def descend(
    evaluate: Evaluate,
    images: Tensor,
    logits: Tensor,
    optimiser: Adam,
    schedule: Schedule,
    budget: Budget,
    box: tuple[float, float] | None = (0.0, 1.0),
    on_iteration: Callable[[int], None] = lambda iteration: None,
) -> Outcome:
    """Minimise from (problems, n, channels, height, width) images and (problems, n, classes) label logits."""
    began = time.monotonic()
    best_images, best_logits = images.clone(), logits.clone()
    best = torch.full((len(images),), torch.inf)
    since, traces = torch.zeros(len(images), dtype=torch.int64), []
    image_moments, logit_moments = Moments.zero(images), Moments.zero(logits)
    running = torch.ones(len(images), dtype=torch.bool)
    for iteration in range(budget.iterations):
        rows = running.nonzero().flatten()
        values, to_images, to_logits = evaluate(images[rows], logits[rows], rows)
        finite = values.isfinite() & to_images.flatten(1).isfinite().all(1) & to_logits.flatten(1).isfinite().all(1)
        running[rows[~finite]] = False  # diverged: it rests at its best and disturbs nobody
        better = finite & (values < best[rows])
        won = rows[better]
        best[won], best_images[won], best_logits[won] = values[better], images[won], logits[won]
        since += 1
        since[won] = 0
        if budget.stagnation is not None:
            running &= since < budget.stagnation
        trace = torch.full((len(images),), torch.nan)
        trace[rows] = values
        traces.append(trace)
        on_iteration(iteration)
        late = budget.seconds is not None and time.monotonic() - began > budget.seconds
        if late or not running.any():
            break
        factor = schedule.factor(iteration, budget.iterations)
        full_images, full_logits = torch.zeros_like(images), torch.zeros_like(logits)
        full_images[rows[finite]], full_logits[rows[finite]] = to_images[finite], to_logits[finite]
        images, image_moments = optimiser.step(images, full_images, image_moments, factor)
        logits, logit_moments = optimiser.step(logits, full_logits, logit_moments, factor)
        if box is not None:
            images = images.clamp(*box)
    return Outcome(best_images, best_logits, best, torch.stack(traces))


def one_by_one(evaluators: list[Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]]) -> Evaluate:
    """For problems that fill the machine by themselves: each row by its own evaluator, one after another."""

    def evaluate(images: Tensor, logits: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = [evaluators[int(row)](x, y) for x, y, row in zip(images, logits, rows, strict=True)]
        values, to_images, to_logits = zip(*found, strict=True)
        return torch.stack(values), torch.stack(to_images), torch.stack(to_logits)

    return evaluate

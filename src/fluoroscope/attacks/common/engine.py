"""Runs many independent problems side by side: each with its own best iterate and stop, none seen by its neighbours."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol

import torch
from torch import Tensor

from fluoroscope.attacks.common.descent import Evaluate, Optimiser, S
from fluoroscope.attacks.common.optimisers import Schedule
from fluoroscope.errors import Misconfigured


@dataclass(frozen=True)
class Budget:
    """When to stop: the first of these."""

    iterations: int
    seconds: float | None = None
    stagnation: int | None = None
    """Iterations without a new best value, problem by problem."""

    def __post_init__(self) -> None:
        for key in ("iterations", "seconds", "stagnation"):
            value = getattr(self, key)
            if value is not None and not value > 0:
                raise Misconfigured(f"budget.{key} must be above 0, not {value}.")

    def spent(self, iterations: int, seconds: float) -> bool:
        return iterations >= self.iterations or (self.seconds is not None and seconds > self.seconds)


@dataclass(frozen=True, eq=False)
class DescentState(Generic[S]):
    """A descent between two iterations: all that it needs to go on."""

    start: Tensor
    x: Tensor
    state: S
    since: Tensor
    """Iterations since each problem's last new best value."""
    iterations: int = 0
    seconds: float = 0.0
    traces: tuple[Tensor, ...] = ()
    """The values at the start of each iteration; NaN for a problem at rest."""
    snapshots: dict[int, Tensor] = field(default_factory=dict)
    """x after so many iterations."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of every problem. The first axis of x is the problem."""

    start: Tensor
    best: Tensor
    """The best iterate by the attack's own objective."""
    values: Tensor
    """The objective there."""
    last: Tensor
    """Where the descent ended; a diverged problem ended at its best."""
    diverged: Tensor
    traces: Tensor
    """(iterations, problems): the objective at the start of each iteration; NaN once a problem rests."""
    snapshots: dict[int, Tensor]


class CheckpointSink(Protocol[S]):
    """Keeps a descent for later, in case that this one is stopped."""

    def resume(self, fresh: DescentState[S]) -> DescentState[S]:
        """Where an earlier run of the same descent was, or `fresh`."""
        ...

    def keep(self, midway: DescentState[S], ended: bool) -> None:
        """Called after every iteration, of which it need not store every one, and at the end, which it must."""
        ...


def descend(
    evaluate: Evaluate,
    x: Tensor,
    optimiser: Optimiser[S],
    schedule: Schedule,
    budget: Budget,
    project: Callable[[Tensor], Tensor] = lambda x: x,
    on_iteration: Callable[[int], None] = lambda iteration: None,
    snapshots: int | None = None,
    keeper: CheckpointSink[S] | None = None,
) -> Outcome:
    """Minimise from x (problems, dim); `snapshots` keeps x every so many iterations."""
    now = DescentState(x, x, optimiser.init(x), torch.zeros(len(x), dtype=torch.int64))
    now = now if keeper is None else keeper.resume(now)
    began = time.monotonic() - now.seconds
    while not budget.spent(now.iterations, now.seconds) and bool(now.state.running.any()):
        ran, best = now.state.running, now.state.best_values
        factor = schedule.factor(now.iterations, budget.iterations)
        x, state, values = optimiser.step(now.x, now.state, evaluate, factor)
        since = torch.where(state.best_values < best, 0, now.since + 1)
        if budget.stagnation is not None:
            state = replace(state, rested=state.rested | (since >= budget.stagnation))
        now = DescentState(
            start=now.start,
            x=project(x),
            state=state,
            since=since,
            iterations=now.iterations + 1,
            seconds=time.monotonic() - began,
            traces=(*now.traces, torch.where(ran, values, torch.nan)),
            snapshots=now.snapshots,
        )
        if snapshots is not None and now.iterations % snapshots == 0:
            now = replace(now, snapshots={**now.snapshots, now.iterations: now.x})
        if keeper is not None:
            keeper.keep(now, ended=False)
        on_iteration(now.iterations - 1)
    if keeper is not None and now.traces:
        keeper.keep(now, ended=True)
    return Outcome(
        start=now.start,
        best=now.state.best_x,
        values=now.state.best_values,
        last=now.x,
        diverged=now.state.diverged,
        traces=torch.stack(now.traces) if now.traces else x.new_zeros(0, len(x)),
        snapshots=now.snapshots,
    )

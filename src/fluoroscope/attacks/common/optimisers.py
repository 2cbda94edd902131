"""First-order steps for many problems at once, and how the step length changes over the budget."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fluoroscope.attacks.common.descent import Evaluate, Progress, begin, initial_progress, measure


@dataclass(frozen=True)
class Schedule:
    """The factor on the learning rate at each iteration."""

    warmup: int = 0
    """Iterations over which the factor rises to 1."""
    decay: Literal["constant", "cosine", "steps"] = "constant"
    """`steps` divides by ten at 3/8, 5/8 and 7/8 of the budget (Inverting Gradients)."""

    def factor(self, iteration: int, iterations: int) -> float:
        rise = min(1.0, (iteration + 1) / self.warmup) if self.warmup else 1.0
        if self.decay == "cosine":
            return rise * 0.5 * (1 + math.cos(math.pi * iteration / iterations))
        if self.decay == "steps":
            return rise * 0.1 ** sum(iteration >= iterations * eighths // 8 for eighths in (3, 5, 7))
        return rise


@dataclass(frozen=True, eq=False)
class Moments(Progress):
    """Adam's memory."""

    count: Tensor
    """Steps so far, of every row."""
    first: Tensor
    second: Tensor


@dataclass(frozen=True)
class Adam:
    """Adam; `signed` takes the sign of the gradient, `weight_decay` makes it AdamW. One evaluation a step."""

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    signed: bool = False

    @property
    def keeps_to_a_box(self) -> bool:
        return True

    def init(self, x: Tensor) -> Moments:
        """A fresh state for `x` (rows, dim)."""
        count = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        zero = torch.zeros_like(x)
        return Moments(**initial_progress(x), count=count, first=zero, second=zero).copy()

    @torch.no_grad()
    def step(
        self, x: Tensor, state: Moments, evaluate: Evaluate, factor: float = 1.0
    ) -> tuple[Tensor, Moments, Tensor]:
        """One step of every row that runs; the values at the old x."""
        x, state, rows = begin(x, state)
        value, gradient, rows = measure(x, state, rows, evaluate)
        state.values[rows] = value
        beta1, beta2 = self.betas
        gradient = gradient.sign() if self.signed else gradient
        state.count[rows] += 1
        state.first[rows] = beta1 * state.first[rows] + (1 - beta1) * gradient
        state.second[rows] = beta2 * state.second[rows] + (1 - beta2) * gradient.square()
        count = state.count[rows, None].double()
        unbiased = (state.second[rows] / (1 - beta2**count).to(x)).sqrt() + self.eps
        direction = state.first[rows] / (1 - beta1**count).to(x) / unbiased
        lr = self.lr * factor
        x[rows] = x[rows] * (1 - lr * self.weight_decay) - lr * direction
        return x, state, state.values

"""First-order steps for many problems at once, and how the step length changes over the budget."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


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


@dataclass(frozen=True)
class Adam:
    """Adam; `signed` takes the sign of the gradient, `weight_decay` makes it AdamW. Elementwise: problems never mix."""

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    signed: bool = False

    def step(self, x: Tensor, gradient: Tensor, moments: "Moments", factor: float) -> tuple[Tensor, "Moments"]:
        """The next iterate and what to remember; nothing is changed in place."""
        beta1, beta2 = self.betas
        gradient = gradient.sign() if self.signed else gradient
        count = moments.count + 1
        first = beta1 * moments.first + (1 - beta1) * gradient
        second = beta2 * moments.second + (1 - beta2) * gradient.square()
        direction = (first / (1 - beta1**count)) / ((second / (1 - beta2**count)).sqrt() + self.eps)
        lr = self.lr * factor
        return x * (1 - lr * self.weight_decay) - lr * direction, Moments(count, first, second)


@dataclass(frozen=True, eq=False)
class Moments:
    """Adam's memory."""

    count: int
    first: Tensor
    second: Tensor

    @staticmethod
    def zero(x: Tensor) -> "Moments":
        return Moments(0, torch.zeros_like(x), torch.zeros_like(x))

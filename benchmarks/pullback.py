"""What one evaluation of an inversion objective costs in training steps: ResNet-18, `python -m benchmarks pullback`.

Interleaved, and the fastest of several repetitions each, so that a noisy neighbour disturbs all alike.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from fluoroscope.attacks.gradient_inversion.pullback import (
    AutogradPullback,
    Pullback,
    Statistics,
    StatisticsPullback,
    SweptStatistics,
    TangentPullback,
)
from fluoroscope.attacks.gradient_inversion.pullback.rules.own_statistics import OWN_RULES
from fluoroscope.models import Architecture

CLIENTS = 12
"""Of one image each, side by side."""
CASES = ((64, 1, 20), (128, 1, 15), (224, 1, 10), (224, 8, 4))  # size, batch, repetitions


def training_step(model: nn.Module, images: Tensor, labels: Tensor) -> Callable[[], object]:
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step() -> None:
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimiser.step()

    return step


def full(pullback: Pullback, state: dict[str, Tensor], images: Tensor, labels: Tensor) -> Callable[[], object]:
    tape = pullback.forward(state, images, labels)
    directions = {name: torch.randn_like(value) for name, value in tape.gradients.items()}
    statistics = {name: Statistics(*map(torch.randn_like, pair)) for name, pair in tape.statistics.items()}
    return lambda: pullback.backward(pullback.forward(state, images, labels), directions, statistics)


def statistics_only(model: nn.Module, state: dict[str, Tensor], images: Tensor) -> Callable[[], object]:
    pullback = StatisticsPullback(model)
    given = pullback.forward(state, images).statistics
    statistics = {name: Statistics(*map(torch.randn_like, pair)) for name, pair in given.items()}
    return lambda: pullback.backward(pullback.forward(state, images), statistics)


def side_by_side(model: nn.Module, state: dict[str, Tensor], images: Tensor) -> Callable[[], object]:
    """As statistics_only, of as many clients as there are images."""
    swept = SweptStatistics(model, OWN_RULES)
    given = swept.forward(state, images).statistics
    statistics = {name: Statistics(*map(torch.randn_like, pair)) for name, pair in given.items()}
    return lambda: swept.backward(swept.forward(state, images), statistics)


def fastest(runs: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repetitions + 1):  # the first warms up
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: min(times[1:]) for name, times in seconds.items()}


def main() -> None:
    for size, batch, repetitions in CASES:
        model = Architecture("resnet18", 1, 2, size).build()
        state = {name: value.clone() for name, value in model.state_dict().items()}
        images, labels = torch.rand(batch, 1, size, size), torch.rand(batch, 2).softmax(1)
        runs = {
            "step": training_step(model, images, labels),
            "tangent": full(TangentPullback(model), state, images, labels),
            "autograd": full(AutogradPullback(model), state, images, labels),
            "statistics": statistics_only(model, state, images),
        }
        if batch == 1:
            runs["clients"] = side_by_side(model, state, torch.rand(CLIENTS, 1, size, size))
        seconds = fastest(runs, repetitions)
        ratio = {name: value / seconds["step"] for name, value in seconds.items()}
        print(
            f"{size} px x {batch}: training step {1e3 * seconds['step']:.0f} ms; tangent {ratio['tangent']:.2f} steps "
            f"(bar 2.6), autograd {ratio['autograd']:.2f}, statistics only {ratio['statistics']:.2f} (bar 0.8)"
            + (f", of {CLIENTS} clients side by side {ratio['clients'] / CLIENTS:.2f} each" if batch == 1 else ""),
            flush=True,
        )


if __name__ == "__main__":
    main()

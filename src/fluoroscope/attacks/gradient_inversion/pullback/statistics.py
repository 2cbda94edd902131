"""For attacks on the statistics alone: no gradient, no labels, two thirds of a training step."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fluoroscope.attacks.common.measuring import measured
from fluoroscope.attacks.gradient_inversion.pullback import sweeps
from fluoroscope.attacks.gradient_inversion.pullback.contract import Statistics
from fluoroscope.attacks.gradient_inversion.pullback.rules import RULES
from fluoroscope.attacks.gradient_inversion.pullback.rules.op import Op
from fluoroscope.attacks.gradient_inversion.pullback.tracing import Program, Rules, Tracer
from fluoroscope.errors import Unsupported
from fluoroscope.models.modes import named_buffers
from fluoroscope.types import State


@dataclass(frozen=True, eq=False)
class StatisticsTape:
    """The statistics, detached, and what is needed to pull their cotangents back to the images."""

    statistics: dict[str, Statistics]
    images: Tensor


@dataclass(frozen=True, eq=False)
class SweptTape(StatisticsTape):
    """With every operation's own memory."""

    program: Program
    ops: tuple[Op, ...]


@dataclass(frozen=True, eq=False)
class _AutogradTape(StatisticsTape):
    live: dict[str, Statistics]


class SweptStatistics:
    """The first and the last sweep up to the last BatchNorm; `forward` raises Unsupported where there is no rule."""

    def __init__(self, model: nn.Module, rules: Rules = RULES) -> None:
        """`model` gives the architecture in the client's mode; it is copied, so what becomes of it does not matter."""
        self._tracer = Tracer(model, rules)

    @torch.no_grad()
    def forward(self, state: State, images: Tensor) -> SweptTape:
        """A forward pass."""
        program = self._tracer.program(state, images)
        last = max((i for i, step in enumerate(program.steps) if step.layer is not None), default=0)
        program = replace(program, steps=program.steps[: last + 1])
        ops, _ = sweeps.forward(program, state, images.detach())
        return SweptTape(sweeps.measured(program, ops), images.detach(), program, ops)

    @torch.no_grad()
    def backward(self, tape: SweptTape, statistics: Mapping[str, Statistics]) -> Tensor:
        """As StatisticsPullback's."""
        ops = [copy.copy(op) for op in tape.ops]  # the tape stays as it was
        return sweeps.tangent_backward(tape.program, ops, None, statistics, tape.images)


class StatisticsPullback:
    """Sweeps, or autograd where an operation has no rule."""

    def __init__(self, model: nn.Module) -> None:
        """As SweptStatistics'."""
        self._swept = SweptStatistics(model)
        self._model = copy.deepcopy(model)

    def forward(self, state: State, images: Tensor) -> StatisticsTape:
        """A forward pass."""
        try:
            return self._swept.forward(state, images)
        except Unsupported:
            return self._forward_autograd(state, images.detach())

    def _forward_autograd(self, state: State, images: Tensor) -> _AutogradTape:
        values = {name: state[name].detach() for name, _ in self._model.named_parameters()}
        values |= named_buffers(self._model, state)
        with torch.enable_grad(), measured(self._model) as live:
            images = images.requires_grad_()
            functional_call(self._model, values, (images,))
        detached = {name: Statistics(mean.detach(), var.detach()) for name, (mean, var) in live.items()}
        return _AutogradTape(detached, images, live)

    def backward(self, tape: StatisticsTape, statistics: Mapping[str, Statistics]) -> Tensor:
        """The objective's derivative with respect to the images, from that with respect to the statistics."""
        if isinstance(tape, SweptTape):
            return self._swept.backward(tape, statistics)
        assert isinstance(tape, _AutogradTape)
        outputs = [value for name in statistics for value in tape.live[name]]
        if not outputs:
            return torch.zeros_like(tape.images)
        cotangents = [value.detach() for pair in statistics.values() for value in pair]
        (images,) = torch.autograd.grad(outputs, tape.images, cotangents, retain_graph=True)
        return images

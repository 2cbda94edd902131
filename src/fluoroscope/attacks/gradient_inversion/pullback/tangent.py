"""The pullback without second-order autograd: exact, at seven convolutions against a training step's three.

For a cotangent r of the gradient g = dL/dw, the derivative of <g, r> with respect to the images is
    d/de grad_x L(x; w + e r) at e = 0:
a forward and a backward sweep (which give g), a tangent of the first along r, and a tangent of the second, into which
the BatchNorm statistics' cotangents are fed on its way.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fluoroscope.attacks.gradient_inversion.pullback import sweeps
from fluoroscope.attacks.gradient_inversion.pullback.contract import Statistics, Tape
from fluoroscope.attacks.gradient_inversion.pullback.rules.loss import LossRule, loss_rule
from fluoroscope.attacks.gradient_inversion.pullback.rules.op import Op
from fluoroscope.attacks.gradient_inversion.pullback.tracing import Program, RowTracer, Tracer
from fluoroscope.types import CrossEntropy, Loss, State


@dataclass(frozen=True, eq=False)
class TangentTape(Tape):
    """With every operation's own memory of the first two sweeps."""

    program: Program
    ops: tuple[Op, ...]
    objective: LossRule
    images: Tensor


class TangentPullback:
    """For a module whose operations all have a rule; `forward` raises Unsupported for any other."""

    def __init__(self, model: nn.Module, loss: Loss | None = None) -> None:
        """`model` gives the architecture in the client's mode; it is copied, so what becomes of it does not matter."""
        self._tracer: Tracer | RowTracer = Tracer(model)
        self._loss = loss or CrossEntropy()

    @classmethod
    def of_rows(cls, model: nn.Module, loss: CrossEntropy) -> "TangentPullback":
        """For many problems side by side: every tensor has the problem as its first axis; the loss is a plain one."""
        found = cls(model, loss)
        found._tracer = RowTracer(model)
        return found

    def trace(self, state: State, images: Tensor) -> None:
        """Raises Unsupported where an operation has no rule."""
        self._tracer.program(state, images)

    @torch.no_grad()
    def forward(self, state: State, images: Tensor, labels: Tensor) -> TangentTape:
        """Two sweeps: a training step without its update."""
        program = self._tracer.program(state, images)
        ops, logits = sweeps.forward(program, state, images.detach())
        objective = loss_rule(self._loss, logits, labels.detach())
        found = sweeps.backward(program, ops, objective.backward())
        names = self._tracer.parameters
        gradients = {name: found[name] if name in found else torch.zeros_like(state[name]) for name in names}
        statistics = sweeps.measured(program, ops)
        return TangentTape(objective.loss, gradients, statistics, program, ops, objective, images.detach())

    @torch.no_grad()
    def backward(
        self, tape: TangentTape, gradients: Mapping[str, Tensor], statistics: Mapping[str, Statistics]
    ) -> tuple[Tensor, Tensor]:
        """The two tangent sweeps."""
        ops = [copy.copy(op) for op in tape.ops]  # each keeps its tangents; the tape stays as it was
        moved = sweeps.tangent(tape.program, ops, gradients)
        logits, labels = None, torch.zeros_like(tape.objective.labels)
        if moved is not None:
            logits, labels = tape.objective.tangent_backward(moved)
        return sweeps.tangent_backward(tape.program, ops, logits, statistics, tape.images), labels

"""The sweeps over a traced network. Together the four are a pullback; the first and the last serve the statistics."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fluoroscope.attacks.gradient_inversion.pullback.contract import Statistics
from fluoroscope.attacks.gradient_inversion.pullback.rules.batch_norm import BatchNorm
from fluoroscope.attacks.gradient_inversion.pullback.rules.op import Maybe, Op
from fluoroscope.attacks.gradient_inversion.pullback.tracing import Program
from fluoroscope.types import State


def forward(program: Program, state: State, images: Tensor) -> tuple[tuple[Op, ...], Tensor]:
    """Every operation with its memory, and the last one's output."""
    values: list[Maybe] = [None] * program.size
    values[program.images] = images
    for name, place in program.places.items():
        values[place] = state[name].detach()
    ops: list[Op] = []
    for step in program.steps:
        ops.append(step.make())
        output = ops[-1].forward([None if i is None else values[i] for i in step.inputs])
        values[step.output] = output
    return tuple(ops), output


def backward(program: Program, ops: Sequence[Op], logits: Tensor) -> dict[str, Tensor]:
    """The gradients by parameter, from the logits' cotangent; a parameter without influence is left out."""
    cotangents: list[Maybe] = [None] * program.size
    cotangents[program.output] = logits
    for step, op in zip(reversed(program.steps), reversed(ops), strict=True):
        cotangent = cotangents[step.output]
        if cotangent is not None and any(step.trains):
            _give(cotangents, step.inputs, step.trains, op.backward(cotangent, step.trains))
    found = {name: cotangents[place] for name, place in program.places.items()}
    return {name: gradient for name, gradient in found.items() if gradient is not None}


def tangent(program: Program, ops: Sequence[Op], directions: Mapping[str, Tensor]) -> Maybe:
    """The tangent of the logits as the parameters move."""
    tangents: list[Maybe] = [None] * program.size
    for name, direction in directions.items():
        if name in program.places:
            tangents[program.places[name]] = direction.detach()
    for step, op in zip(program.steps, ops, strict=True):
        inputs = [None if i is None else tangents[i] for i in step.inputs]
        moved = any(given is not None for given in inputs)
        tangents[step.output] = op.tangent(inputs) if moved else None
    return tangents[program.output]


def tangent_backward(
    program: Program, ops: Sequence[Op], logits: Maybe, statistics: Mapping[str, Statistics], images: Tensor
) -> Tensor:
    """The objective's derivative by the images, from the tangent of the logits' cotangent and from the statistics'."""
    cotangents: list[Maybe] = [None] * program.size
    cotangents[program.output] = logits
    for step, op in zip(reversed(program.steps), reversed(ops), strict=True):
        if isinstance(op, BatchNorm) and step.layer is not None:
            op.injected = statistics.get(step.layer)
        if any(step.shows):
            _give(cotangents, step.inputs, step.shows, op.tangent_backward(cotangents[step.output], step.shows))
    found = cotangents[program.images]
    return torch.zeros_like(images) if found is None else found


def measured(program: Program, ops: Sequence[Op]) -> dict[str, Statistics]:
    """What the BatchNorm layers saw in the forward sweep."""
    pairs = zip(program.steps, ops, strict=True)
    return {step.layer: op.statistics for step, op in pairs if step.layer is not None and isinstance(op, BatchNorm)}


def _give(
    cotangents: list[Maybe], inputs: Sequence[int | None], wanted: Sequence[bool], given: Sequence[Maybe]
) -> None:
    for place, wants, cotangent in zip(inputs, wanted, given, strict=True):
        if place is not None and wants and cotangent is not None:
            before = cotangents[place]
            cotangents[place] = cotangent if before is None else before + cotangent

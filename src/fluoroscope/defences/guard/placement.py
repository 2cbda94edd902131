"""Dense layers where none belong: on a whole picture or feature map, with convolutions behind them.

A classifier flattens its map once, at its end. Dense layers that read pixels and from which a new picture is made are
the front of P2 and of Robbing the Fed, also behind an innocent first convolution, and also where they are written as
convolutions with a kernel as large as the picture. Squeeze-and-excitation reads means, not places, and is left alone.
"""

import math

from torch import Tensor

from fluoroscope.defences.guard.drift import drift
from fluoroscope.defences.guard.layers import Anatomy
from fluoroscope.defences.guard.stand_ins import MOST_CHANNELS, square_side
from fluoroscope.defences.guard.trace import Step
from fluoroscope.defences.guard.verdict import Reason, Severity
from fluoroscope.types import State

SMALLEST = 8
"""A side of a picture."""


def placement(anatomy: Anatomy, agreed: State | None = None) -> list[Reason]:
    """Refuses dense layers between the image and a convolution, unless they were agreed on."""
    if agreed is not None and not drift(anatomy.state, agreed):
        return []
    return _by_run(anatomy) if anatomy.steps else _by_shapes(anatomy.state)


def _by_run(anatomy: Anatomy) -> list[Reason]:
    steps = anatomy.steps
    assert anatomy.traced is not None
    assert anatomy.probe is not None
    for i, step in enumerate(steps):
        if not (step.reads_map or step.whole_kernel):
            continue
        later = [j for j in range(i + 1, len(steps)) if steps[j].spatial or _opens(steps[j])]
        if not later:
            continue
        depends = anatomy.traced.depend(anatomy.probe, step.name)
        reached = [j for j in later if j < len(depends) and depends[j]]
        if reached:
            return [_reason(step.name, steps[reached[0]].name, "refuse" if _picture(anatomy, i) else "note")]
    return []


def _picture(anatomy: Anatomy, i: int) -> bool:
    """Whether a step reads the picture, or a map as large with as few channels: encoders make codes of smaller maps."""
    assert anatomy.probe is not None
    channels, *sides = anatomy.probe.shape[1:]
    values = math.prod(anatomy.steps[i].given)
    return not any(step.kind == "conv" and not step.whole_kernel for step in anatomy.steps[:i]) or any(
        step.made[0] <= max(MOST_CHANNELS, channels) and values == math.prod(step.made) >= math.prod(sides) // 2
        for step in anatomy.steps[:i]
        if step.kind == "conv"
    )


def _opens(step: Step) -> bool:
    """A transposed convolution that makes a picture of one place."""
    return step.kind == "transposed" and step.made[-1] * step.made[-2] > 1


def _by_shapes(state: State) -> list[Reason]:
    """In the order of the state dict, which is nearly always that of the network."""
    weights = [(n, v) for n, v in state.items() if v.ndim in (2, 4) and v.is_floating_point()]
    kernels = [i for i, (_, value) in enumerate(weights) if _convolves(value)]
    for i, (name, value) in enumerate(weights):
        behind = [j for j in kernels if j > i]
        if not behind or not _dense(value):
            continue
        before_all = not any(j < i for j in kernels)
        following = weights[behind[0]][1]
        depthwise = following.shape[1] == 1 and len(following) in {len(weights[j][1]) for j in kernels if j < i}
        first = before_all and len(value) > 1 and value.ndim == 2
        if first or (not depthwise and _makes_map(value, following)):
            reads = _reads_picture(value)
            plain = first or not any(_convolves(v) and len(v) > MOST_CHANNELS for _, v in weights[:i])
            return [_reason(name, weights[behind[0]][0], "refuse" if reads and plain else "note")]
    return []


def _reads_picture(value: Tensor) -> bool:
    """Inputs that are a square picture; kernels of 16 and 32 pixels are patches."""
    if value.ndim == 4:
        return value.shape[2] not in (16, 32) or value.shape[1] > MOST_CHANNELS
    return any((side := square_side(value.shape[1], c)) is not None and side >= SMALLEST for c in (1, 3))


def _convolves(value: Tensor) -> bool:
    return value.ndim == 4 and 1 < value.shape[2] <= 11


def _dense(value: Tensor) -> bool:
    return value.ndim == 2 or value.shape[2] > 11


def _makes_map(value: Tensor, following: Tensor) -> bool:
    """Whether what this layer makes is a square picture with the channels that the next convolution reads."""
    if value.ndim == 4 and value.shape[2] > 11 and following.shape[1] == value.shape[1]:
        return True  # a whole kernel, or its transpose, and then the channels of the image again
    channels = following.shape[1]
    if len(following) == len(value):
        return False  # one kernel per channel: the next layer is depthwise
    side = square_side(len(value), channels)
    return side is not None and side >= 4


def _reason(name: str, behind: str, severity: Severity) -> Reason:
    layer, conv = name.removesuffix(".weight"), behind.removesuffix(".weight")
    return Reason(
        "placement",
        layer,
        severity,
        f"{layer} is a dense layer that reads a whole picture, and {conv} works on what is made of it. Networks for "
        "images have no use for that; it is where a server puts the layers that copy images into the update.",
    )

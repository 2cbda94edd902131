"""Numbers that no honest model holds: not finite, or one path that drowns all others."""

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from fluoroscope.defences.guard.layers import Anatomy, Layer
from fluoroscope.defences.guard.verdict import Reason
from fluoroscope.types import State

DROWNS = 300.0
"""Times the layer's median: pretrained and badly trained dense layers stay below a few dozen."""
FEWEST = 8
MOST_UNITS = 2**17
"""Of one layer: a gigabyte is enough to judge as many."""


def strange(value: object) -> str:
    """What a value is instead of an array of plain numbers; empty if it is one."""
    if not isinstance(value, Tensor):
        return f"a value of type {type(value).__name__}"
    if is_lazy(value):
        return "not initialised"
    if value.is_quantized:
        return "quantised"
    if value.device.type == "meta":
        return "without values"
    return "sparse" if value.layout != torch.strided or value.is_nested else ""


def arrays(state: State) -> State:
    """Without what a module may keep beside its arrays, by `get_extra_state` or when it is quantised."""
    return {name: value for name, value in state.items() if isinstance(value, Tensor)}


def others(state: State) -> list[Reason]:
    """Notes what is no array: that a model holds such is no sign of an attack, but nobody has looked at it."""
    names = [name for name, value in state.items() if not isinstance(value, Tensor)]
    if not names:
        return []
    sentence = (
        f"{names[0]} is {strange(state[names[0]])} and not an array ({len(names)} are not): what it does cannot be "
        "checked. Send arrays of numbers alone."
    )
    return [Reason("not judged", names[0].rpartition(".")[0], "note", sentence, {"no arrays": len(names)})]


def numbers(state: State) -> list[Reason]:
    """Refuses NaN and infinity, and kinds of numbers that no training gives: nothing can be checked in them."""
    broken, complex_, whole = [], [], []
    for name, value in state.items():
        if strange(value) or value.is_complex():
            complex_.append(name)
        elif value.is_floating_point():
            if not torch.isfinite(value.float()).all():
                broken.append(name)
        elif name.endswith("weight") and value.ndim >= 2 and value.dtype != torch.bool:
            whole.append(name)
    return [
        *_reason_for(broken, "holds values that are not finite numbers", "not finite"),
        *_reason_for(complex_, "holds complex, sparse, quantised or missing values", "of another kind"),
        *_reason_for(whole, "holds whole numbers as weights, which no training gives: ask for them as floats", "whole"),
        *_too_many(state),
    ]


def _reason_for(names: list[str], what: str, kind: str) -> list[Reason]:
    if not names:
        return []
    sentence = (
        f"{names[0]} {what} ({len(names)} arrays do): the model cannot be trained as it is, and what it would do to "
        "your images cannot be checked."
    )
    return [Reason("numbers", names[0].rpartition(".")[0], "refuse", sentence, {f"arrays {kind}": len(names)})]


def as_floats(state: State) -> State:
    """Half, double and eight-bit floats as the checks compute: in single precision."""
    return {name: value.float() if value.is_floating_point() else value for name, value in state.items()}


def _too_many(state: State) -> list[Reason]:
    """Refuses a layer that is too large to be judged: what the checks of its units would take is no client's memory."""
    large = [name for name, value in state.items() if not strange(value) and value.ndim > 1 and len(value) > MOST_UNITS]
    if not large:
        return []
    units = len(state[large[0]])
    sentence = (
        f"{large[0]} has {units:,} units; at most {MOST_UNITS:,} are judged, and what cannot be judged is not trained."
    )
    return [Reason("numbers", large[0].rpartition(".")[0], "refuse", sentence, {"units": units})]


def blank(anatomy: Anatomy) -> list[Reason]:
    """Refuses an array of zeros that makes the network blind: its last layer then sees the same of every image.

    Zeros alone are a usual start for the end of a residual branch, and a network that training has killed is blind too,
    but training leaves no zeros.
    """
    zeros = [
        name.removesuffix(".weight")
        for name, value in anatomy.state.items()
        if name.endswith("weight") and len(value) >= FEWEST and not value.any()
    ]
    last = [layer for layer in anatomy.layers if layer.last and layer.seen and not layer.imagined]
    if not zeros or not last or zeros == [last[0].name]:
        return []
    if float((last[0].seen[0] - last[0].seen[0][0]).abs().max()) > 0:
        return []
    sentence = (
        f"{zeros[0]} holds nothing but zeros, and no image gets past it. A server that sends it to all clients but one "
        "reads that one's update out of the secure sum."
    )
    return [Reason("firing", zeros[0], "refuse", sentence, {"arrays of zeros": len(zeros)})]


def scale(layer: Layer) -> list[Reason]:
    """Refuses a single unit whose weights are hundreds of times those of its neighbours; divergence takes several."""
    ratio = uneven(layer.weight)
    norms = layer.weight.double().norm(dim=1)
    large = int((norms > 10 * norms.median()).sum())
    if layer.units < 3 or layer.inputs < FEWEST or ratio < DROWNS or large > 1:
        return []
    sentence = (
        f"One unit of {layer.name} weighs {ratio:.0f} times as much as its neighbours: it drowns all other paths, so "
        "that the update shows little but what this unit sees."
    )
    return [Reason("scale", layer.name, "refuse", sentence, {"largest over median norm": ratio})]


def uneven(weight: Tensor) -> float:
    """The largest norm of a row over the median one; rows of zeros do not count."""
    norms = weight.double().norm(dim=1)
    norms = norms[norms > 0]
    return float(norms.max() / norms.median()) if len(norms) >= max(3, len(weight) // 2) else 1.0

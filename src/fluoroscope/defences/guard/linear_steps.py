"""Functions of torch that keep a value linear in the weights that made it: by name, or because they hardly bend it."""

from dataclasses import dataclass

import torch
from torch import Tensor

LINEAR = frozenset(
    [
        "view",
        "reshape",
        "flatten",
        "unflatten",
        "permute",
        "transpose",
        "t",
        "contiguous",
        "squeeze",
        "unsqueeze",
        "expand",
        "expand_as",
        "movedim",
        "moveaxis",
        "swapaxes",
        "swapdims",
        "chunk",
        "split",
        "unbind",
        "narrow",
        "select",
        "index_select",
        "__getitem__",
        "getitem",
        "clone",
        "to",
        "float",
        "double",
        "half",
        "type",
        "type_as",
        "view_as",
        "reshape_as",
        "roll",
        "flip",
        "cat",
        "concat",
        "stack",
        "hstack",
        "vstack",
        "concatenate",
        "pad",
        "constant_pad_nd",
        "dropout",
        "feature_dropout",
        "alpha_dropout",
        "neg",
        "__neg__",
        "negative",
        "batch_norm",
        "layer_norm",
        "group_norm",
        "instance_norm",
        "native_layer_norm",
        "native_group_norm",
        "native_batch_norm",
        "rms_norm",
        "T",
        "mT",
        "H",
        "mH",
        "data",
        "real",
        "pixel_shuffle",
        "pixel_unshuffle",
        "repeat",
        "repeat_interleave",
        "tile",
        "unfold",
        "fold",
        "sum",
        "mean",
        "avg_pool1d",
        "avg_pool2d",
        "avg_pool3d",
        "adaptive_avg_pool1d",
        "adaptive_avg_pool2d",
        "adaptive_avg_pool3d",
        "diff",
        "cumsum",
        "identity",
    ]
)
"""What keeps a value a linear function of its weights; norms bend it by a scale that a server can estimate."""
AFFINE = frozenset(
    [
        "add",
        "__add__",
        "__radd__",
        "add_",
        "__iadd__",
        "sub",
        "__sub__",
        "__rsub__",
        "sub_",
        "__isub__",
        "rsub",
        "mul",
        "__mul__",
        "__rmul__",
        "mul_",
        "__imul__",
        "div",
        "__truediv__",
        "div_",
        "__itruediv__",
        "true_divide",
        "subtract",
        "multiply",
        "divide",
        "lerp",
        "addcmul",
    ]
)
"""Linear where one side does not come from the images."""
STRAIGHT = 1e-4
"""Share of the energy behind a bend that no line explains, below which it is none: a rectifier of what is far above
zero, a hyperbolic tangent of what is small. A server that mixes units before it undoes the mixing behind it."""


HARDLY = 0.03
"""The same, below which what follows may be undone all the same: what is left is noise in a picture."""


@dataclass(frozen=True, eq=False)
class Lines:
    """The best line through what went into each unit and what came out of it."""

    slope: Tensor
    left: Tensor
    """Energy that the line does not explain."""
    whole: Tensor

    @property
    def bent(self) -> Tensor:
        """Which units are not on a line, or are the same for all images."""
        return ~((self.whole > 0) & (self.left <= STRAIGHT * self.whole))


def lines(given: Tensor, made: object) -> Lines | None:
    """Of a dense layer's units, (images, units); None for anything else."""
    if not isinstance(made, Tensor) or made is given or made.shape != given.shape or given.ndim < 2:
        return None
    if len(given) < 3 or given[0].numel() != given.shape[1] or given.is_complex() or made.is_complex():
        return None
    x, y = (value.detach().double().flatten(1) for value in (given, made))
    x, y = x - x.mean(dim=0), y - y.mean(dim=0)
    energy = x.square().sum(dim=0)
    slope = (x * y).sum(dim=0) / torch.where(energy > 0, energy, torch.ones_like(energy))
    return Lines(slope, (y - slope * x).square().sum(dim=0), y.square().sum(dim=0))


def straight(given: Tensor, made: object, least: float = STRAIGHT) -> bool:
    """Whether the units of a dense layer came out on lines, but for so much: then nothing was bent on this batch."""
    found = lines(given, made)
    if found is None:
        return False
    left, whole = found.left.sum(), found.whole.sum()
    return bool(whole > 0) and bool(left <= least * whole)

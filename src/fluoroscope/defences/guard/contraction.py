"""Products in one form: whatever torch calls them, (samples, inputs) times (units, inputs)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

MATRIX = frozenset(["matmul", "__matmul__", "mm", "bmm"])
BIASED = frozenset(["addmm", "baddbmm", "addmv"])
ELEMENTWISE = frozenset(["mul", "__mul__", "__rmul__", "multiply"])
FEWEST_INPUTS = 16
FEW_PLACES, MOST_PLACES = 16, 64
"""Places on which a convolution's rows may show single images; the second where kernels reach a quarter of the map."""
CONVOLUTIONS = frozenset(["conv1d", "conv2d", "conv3d", "convolution"])
TRANSPOSED = frozenset(["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"])


@dataclass(frozen=True, eq=False)
class Contraction:
    """One product, and how to bring its sides into one form."""

    given: Tensor
    """The side that comes from the images, or the left one."""
    weight: Tensor
    one_side: bool
    """Exactly one side comes from the images; the other is a weight."""
    samples: Callable[[Tensor], Tensor | None]
    """What the units read, (leading..., inputs); None where places are added up."""
    units: Callable[[Tensor], Tensor]
    """The output, or its gradient, (leading..., units)."""
    matrix: Callable[[Tensor], Tensor]
    """The weight as (units, inputs)."""
    work: int
    """Multiplications in all."""
    carries: bool = True
    """The output is linear in what went in, by a step that the server knows."""
    slides: bool = False
    """A convolution that adds up over places: its gradient holds no single thing that was read."""
    apart: bool = False
    """Places are layers beside each other, with weights of their own."""
    overlaps: bool = False
    """A convolution on so few places that its rows may show single images; they add up all the same."""


def contraction(
    func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Contraction | None:
    """The product that a call is; None for any other function."""
    if any(isinstance(value, Tensor) and value.is_complex() for value in args):
        return None  # a convolution by way of frequencies: seen through every image's own gradient
    if name == "linear":
        x, w = _pick(args, kwargs, ("input", "weight"))
        return _dense(x, w, transposed=True)
    if name in MATRIX or name == "__rmatmul__":
        a, b = _pick(args, kwargs, ("input", "other" if "other" in kwargs else "mat2"))
        return _matmul(*((b, a) if name == "__rmatmul__" else (a, b)))
    if name in BIASED:
        _, a, b = _pick(
            args, kwargs, ("input", "mat1" if "mat1" in kwargs else "batch1", "mat2" if "mat2" in kwargs else "batch2")
        )
        return _matmul(a, b)
    if name in CONVOLUTIONS:
        return _convolution(args, kwargs)
    if name in TRANSPOSED:
        return _transposed(args, kwargs)
    if func is torch.einsum and len(args) >= 2 and isinstance(args[0], str):
        operands = args[1] if isinstance(args[1], tuple | list) else args[1:]
        return _einsum(args[0], tuple(operands)) if len(operands) == 2 else None
    if name in ELEMENTWISE and len(args) == 2 and all(isinstance(value, Tensor) for value in args):
        return _spread_out(*args)
    return None


def _pick(args: tuple[Any, ...], kwargs: dict[str, Any], names: tuple[str, ...]) -> list[Any]:
    rest = [kwargs[name] for name in names if name in kwargs]
    return [*args[: len(names) - len(rest)], *rest]


def _one(a: Tensor, b: Tensor) -> bool:
    return a.requires_grad != b.requires_grad


def _dense(x: Tensor, w: Tensor, transposed: bool) -> Contraction:
    """x (..., inputs) times w (units, inputs), or (inputs, units)."""
    matrix = (lambda v: v) if transposed else (lambda v: v.transpose(-1, -2))
    if w.ndim == 1:
        matrix, units = (lambda v: v[None]), (lambda out: out[..., None])
    else:
        units = lambda out: out  # noqa: E731
    return Contraction(
        x,
        w,
        _one(x, w) and x.requires_grad,
        lambda v: v,
        units,
        matrix,
        x.numel() * (w.shape[0 if transposed else -1] if w.ndim > 1 else 1),
    )


def _matmul(a: Tensor, b: Tensor) -> Contraction | None:
    if a.ndim == 0 or b.ndim == 0:
        return None
    work = a.numel() * (b.shape[-1] if b.ndim > 1 else 1)
    if not _one(a, b):
        return Contraction(a, b, False, lambda v: v, lambda v: v, lambda v: v, work)
    if a.requires_grad and b.ndim <= 2:
        return _dense(a, b, transposed=False)
    if b.requires_grad and a.ndim == 2:  # W @ x: columns are samples
        turn = lambda v: v.transpose(-1, -2) if v.ndim > 1 else v  # noqa: E731
        return Contraction(b, a, True, turn, turn, lambda v: v, work)
    return _batched(a, b, work)


def _batched(a: Tensor, b: Tensor, work: int) -> Contraction | None:
    """Both sides have leading dimensions: each of the weight's is a layer of its own, put beside the others."""
    if a.ndim != b.ndim or a.ndim < 3:
        return None
    letters = "abcdefgh"[: a.ndim - 2]
    left = "".join(letters)
    if a.requires_grad:
        return _einsum(f"{left}yi,{left}iu->{left}yu", (a, b), work)
    return _einsum(f"{left}ui,{left}iy->{left}uy", (a, b), work)


def _einsum(equation: str, operands: tuple[Tensor, ...], work: int | None = None) -> Contraction | None:
    a, b = operands
    equation = equation.replace(" ", "")
    if not _one(a, b) or "..." in equation:
        return Contraction(a, b, False, lambda v: v, lambda v: v, lambda v: v, 0) if not _one(a, b) else None
    terms, _, result = equation.partition("->")
    first, second = terms.split(",")
    if "->" not in equation:
        result = "".join(sorted(c for c in set(first + second) if (first + second).count(c) == 1))
    xs, ws, x, w = (first, second, a, b) if a.requires_grad else (second, first, b, a)
    if len(set(xs)) < len(xs) or len(set(ws)) < len(ws):
        return None
    size = {c: n for s, v in ((first, a), (second, b)) for c, n in zip(s, v.shape, strict=True)}
    shared = [c for c in ws if c in xs and c in result and size[c] > 1 and w.shape[ws.index(c)] > 1]
    inputs = [c for c in ws if c in xs and c not in result]
    units = [c for c in ws if c in result and c not in xs]
    lead = [c for c in xs if c in result and c not in shared]
    if not inputs:
        return None

    def samples(v: Tensor) -> Tensor:
        order = [xs.index(c) for c in (*lead, *shared, *inputs)]
        rest = [i for i in range(v.ndim) if i not in order]
        v = v.sum(dim=rest) if rest else v
        kept = [c for c in xs if c not in [xs[i] for i in rest]]
        v = v.permute([kept.index(c) for c in (*lead, *shared, *inputs)])
        return v.reshape(*v.shape[: len(lead) + len(shared)], -1)

    def outputs(v: Tensor) -> Tensor:
        v = v.permute([result.index(c) for c in (*lead, *shared, *units)])
        return v.reshape(*v.shape[: len(lead) + len(shared)], -1)

    def matrix(v: Tensor) -> Tensor:
        order = [ws.index(c) for c in (*shared, *units, *inputs)]
        rest = [i for i in range(v.ndim) if i not in order]
        v = v.sum(dim=rest) if rest else v
        kept = [c for c in ws if c not in [ws[i] for i in rest]]
        v = v.permute([kept.index(c) for c in (*shared, *units, *inputs)])
        return v.reshape(-1, math.prod(size[c] for c in inputs))

    if work is None:
        work = math.prod(size.values())
    return Contraction(
        x, w, True, samples, outputs, matrix, work, carries=not shared, apart=bool(shared) and lead == [xs[0]]
    )


def _spread_out(a: Tensor, b: Tensor) -> Contraction | None:
    """A product written out, (images, 1, inputs) times (units, inputs), whose sum over the inputs is taken later."""
    if not _one(a, b):
        return None
    x, w = (a, b) if a.requires_grad else (b, a)
    if x.ndim < 3 or w.ndim > x.ndim:
        return None
    shape = (1,) * (x.ndim - w.ndim) + tuple(w.shape)
    units = [i for i in range(1, x.ndim) if x.shape[i] == 1 and shape[i] > 1]
    inputs = [i for i in range(1, x.ndim) if x.shape[i] == shape[i] > 1]
    if shape[0] != 1 or not units or math.prod(shape[i] for i in inputs) < FEWEST_INPUTS:
        return None
    lead = [i for i in range(x.ndim) if i not in units and i not in inputs]

    def samples(v: Tensor) -> Tensor:
        v = v.permute(*lead, *units, *inputs)
        return v.reshape(*v.shape[: len(lead)], -1)

    def outputs(v: Tensor) -> Tensor:
        v = v.mean(dim=inputs, keepdim=True).permute(*lead, *units, *inputs)
        return v.reshape(*v.shape[: len(lead)], -1)

    def matrix(v: Tensor) -> Tensor:
        return v.reshape(shape).permute(*lead, *units, *inputs).reshape(math.prod(shape[i] for i in units), -1)

    return Contraction(x, w, True, samples, outputs, matrix, x.numel() * math.prod(shape[i] for i in units))


def _numbers(value: Any, n: int) -> tuple[int, ...]:  # noqa: ANN401
    return tuple(int(v) for v in value) * (n // len(value)) if isinstance(value, tuple | list) else (int(value),) * n


def _convolution(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Contraction:
    x, w = _pick(args, kwargs, ("input", "weight"))
    space = w.ndim - 2
    x_ = x if x.ndim == w.ndim else x[None]
    names = ("stride", "padding", "dilation", "groups")
    stride, padding, dilation, groups = (
        args[3 + i] if len(args) > 3 + i else kwargs.get(n, 0 if n == "padding" else 1) for i, n in enumerate(names)
    )
    kernel, stride, dilation = tuple(w.shape[2:]), _numbers(stride, space), _numbers(dilation, space)
    reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    if isinstance(padding, str):
        padding = [r // 2 for r in reach] if padding == "same" else 0
    padding = _numbers(padding, space)
    places = [(n + 2 * p - r - 1) // s + 1 for n, p, r, s in zip(x_.shape[2:], padding, reach, stride, strict=True)]
    work = len(x_) * w.numel() * math.prod(places)
    whole = math.prod(places) == 1
    patches = groups == 1 and max(kernel) > 1 and all(s >= k for s, k in zip(stride, kernel, strict=True))
    pointwise = groups == 1 and max(kernel) == 1
    covers = groups == 1 and min(kernel) >= 8 and all(2 * k >= n for k, n in zip(kernel, x_.shape[2:], strict=True))

    wide = math.prod(places) <= MOST_PLACES and math.prod(kernel) >= math.prod(x_.shape[2:]) / 4
    few = math.prod(places) <= FEW_PLACES or wide
    overlaps = groups == 1 and few and not (whole or patches or pointwise or covers)
    slides = not (whole or patches or pointwise or covers or overlaps)

    def samples(v: Tensor) -> Tensor | None:
        if slides:
            return None
        read = convolved(v if v.ndim == w.ndim else v[None], kernel, stride, padding, dilation)
        return read if groups == 1 else read.reshape(len(read), groups, -1)

    def units(out: Tensor) -> Tensor:
        out = out if out.ndim == w.ndim else out[None]
        places = out.flatten(2).transpose(1, 2)
        return places if groups == 1 or slides else places.reshape(len(out), groups, -1)

    return Contraction(
        x,
        w,
        _one(x, w) and x.requires_grad,
        samples,
        units,
        lambda v: v.flatten(1),
        work,
        carries=whole and groups == 1,
        slides=slides,
        apart=groups > 1 and not slides,
        overlaps=overlaps,
    )


def convolved(
    x: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...]
) -> Tensor:
    """The patches that a convolution reads, (images, places, inputs), in any number of dimensions."""
    x = F.pad(x, [p for pad in reversed(padding) for p in (pad, pad)])
    for i, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True)):
        x = x.unfold(2 + i, d * (k - 1) + 1, s)
        if d > 1:
            x = x[..., ::d]
    space = len(kernel)
    order = [0, *range(2, 2 + space), 1, *range(2 + space, 2 + 2 * space)]
    x = x.permute(order)
    return x.reshape(len(x), math.prod(x.shape[1 : 1 + space]), -1)


def _transposed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Contraction:
    """Reads each place once: a dense layer per place, whose units are (channel, offset)."""
    x, w = _pick(args, kwargs, ("input", "weight"))
    single = math.prod(x.shape[2:]) == 1
    groups = args[6] if len(args) > 6 else kwargs.get("groups", 1)

    slides = not single or groups != 1 or x.ndim != w.ndim

    def samples(v: Tensor) -> Tensor | None:
        return None if slides else v.flatten(1)[:, None]

    def units(out: Tensor) -> Tensor:
        return out.flatten(1)[:, None] if single else out.flatten(2).transpose(1, 2)

    return Contraction(
        x,
        w,
        _one(x, w) and x.requires_grad,
        samples,
        units,
        lambda v: v.flatten(1).T,
        x.numel() * w[0].numel(),
        carries=single,
        slides=slides,
    )

"""Watches one forward pass: every product with weights, what it reads, and where its values bend.

Functions are watched instead of modules: a weight may be a bare parameter, made on the fly (weight norm, LoRA, any
parametrisation), or multiplied by `einsum`. Where only linear steps lie between a product and the next bend of the
network, the gradient at the bend counts too: the server knows those steps, and can undo them.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.overrides import TorchFunctionMode

from fluoroscope.defences.guard.batches import Batch
from fluoroscope.defences.guard.contraction import FEWEST_INPUTS, Contraction, contraction
from fluoroscope.defences.guard.linear_steps import AFFINE, HARDLY, LINEAR, straight
from fluoroscope.defences.guard.undone import Straight, straight_units

MOST_BENDS, LONGEST = 4, 64
"""Places where a product's values may bend that are looked at; and products behind each other that bend nowhere."""
MOST_DROPPED = 0.5


@dataclass(frozen=True)
class Bend:
    """A place where a product's values bend."""

    before: GradientEdge
    shape: tuple[int, ...]
    behind: GradientEdge | None
    """The same units after it; None where they are not one to one."""
    slope: Tensor | None
    """Its derivative at every unit."""


@dataclass(eq=False)
class Seen:
    """A product while it is watched."""

    name: str
    form: Contraction
    given: Tensor
    weight: Tensor
    left: Tensor | None
    out: GradientEdge
    made: tuple[int, ...]
    pixels: bool
    leaves: frozenset[str]
    bends: list["Bend"] = field(default_factory=list)
    behind: list[tuple[int, Tensor]] = field(default_factory=list)
    """Dense layers that read its units behind one bend, by number, and the slope of each unit that is straight."""


@dataclass(frozen=True)
class _Made:
    """What is known of a tensor: the products that it is linear in, or the arrays that it was made of."""

    products: tuple[int, ...] = ()
    leaves: frozenset[str] = frozenset()
    left: Tensor | None = None
    """The left factor of a weight that is a product of two."""
    learnt: bool = False
    """Comes from the images through weights."""
    straight: Straight | None = None
    """The dense layer whose units these are, behind a bend."""


_NOTHING = _Made()


class Watch(TorchFunctionMode):
    """Watches one forward pass. Weights must not require gradients, inputs must: that tells them apart."""

    def __init__(self, leaves: Mapping[int, str]) -> None:
        super().__init__()
        self.leaves = leaves
        self.seen: list[Seen] = []
        self.otherwise: set[str] = set()
        """Arrays that meet something of the images in another way than by a product."""
        self.otherwise_work = 0
        """Multiplications of images with images, as in attention."""
        self._made: dict[int, _Made] = {}
        self._kept: list[Tensor] = []  # an id means something only while its tensor lives

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types_: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  # as torch has it
        kwargs = kwargs or {}
        if isinstance(func, types.FunctionType) and func is not torch.einsum and _opened(func) is not None:
            with self:  # its body calls the functions that count
                return _opened(func)(*args, **kwargs)  # type: ignore[misc]
        name = func.__name__ if func.__name__ != "__get__" else getattr(func.__self__, "__name__", "")  # type: ignore[attr-defined]
        tensors = [value for value in _flat((args, kwargs)) if isinstance(value, Tensor)]
        data = [value for value in tensors if value.requires_grad]
        if not data:
            out = func(*args, **kwargs)
            if name in ("embedding", "embedding_bag") and isinstance(out, Tensor) and out.is_floating_point():
                return out.detach().requires_grad_() if torch.is_grad_enabled() else out
            self._constant(name, tensors, out)
            return out
        if "dropout" in name and args and isinstance(args[0], Tensor) and _keeps_most(args, kwargs):
            return args[0]  # what is left out differs from run to run, and hides nothing on the average
        form = contraction(func, name, args, kwargs)
        bends = self._bending(name, tensors, data, form)
        out = func(*args, **kwargs)
        self._note(name, form, tensors, data, bends, out)
        return out

    def _about(self, value: Tensor) -> _Made:
        leaf = self.leaves.get(id(value))
        return _Made(leaves=frozenset([leaf])) if leaf else self._made.get(id(value), _NOTHING)

    def _set(self, value: object, made: _Made) -> None:
        for each in _flat(value):
            if isinstance(each, Tensor) and made != _NOTHING:
                self._made[id(each)] = made
                self._kept.append(each)

    def _constant(self, name: str, tensors: list[Tensor], out: object) -> None:
        """A weight on its way: which arrays it is made of."""
        about = [self._about(value) for value in tensors]
        left = next((each.left for each in about if each.left is not None), None)
        if name in ("mm", "matmul", "__matmul__", "__rmatmul__") and len(tensors) == 2 and tensors[0].ndim == 2:
            left = tensors[0]
        self._set(out, _Made(leaves=frozenset().union(*(each.leaves for each in about)), left=left))

    def _bending(
        self, name: str, tensors: list[Tensor], data: list[Tensor], form: Contraction | None
    ) -> list[tuple[int, GradientEdge, tuple[int, ...]]]:
        """The products that end here, with the place where their gradient is to be taken. Before an in-place step."""
        if (form is not None and form.one_side) or name in LINEAR or (name in AFFINE and len(data) == 1):
            return []
        found = []
        for value in data:
            found += [
                (number, get_gradient_edge(value), tuple(value.shape))
                for number in self._about(value).products
                if len(self.seen[number].bends) < MOST_BENDS
            ]
        return found

    def _note(
        self,
        name: str,
        form: Contraction | None,
        tensors: list[Tensor],
        data: list[Tensor],
        bends: list[tuple[int, GradientEdge, tuple[int, ...]]],
        out: object,
    ) -> None:
        differentiable = [v for v in _flat(out) if isinstance(v, Tensor) and v.requires_grad]
        if not differentiable:
            return
        linear = bool(bends) and len(data) == 1 and straight(data[0], out)
        passing = [v for v in data if bends and self._about(v).products and straight(v, out, HARDLY)]
        for number, edge, shape in () if linear else bends:
            same = next((v for v in differentiable if v is out and tuple(v.shape) == shape), None)
            behind = None if same is None else get_gradient_edge(same)
            self.seen[number].bends.append(Bend(edge, shape, behind, _slope(same, data)))
        learnt = any(self._about(value).learnt for value in data)
        straight_ = self._straight(data, bends, out)
        if form is not None and not form.one_side:
            self._mixed(data)
            self.otherwise_work += form.work
        if form is not None and form.one_side and isinstance(out, Tensor) and out.requires_grad:
            weight = self._about(form.weight)
            inherited = self._about(form.given).products if form.carries else ()
            self.seen.append(
                Seen(
                    name=", ".join(sorted(weight.leaves)) or f"a product that no array names ({len(self.seen)})",
                    form=form,
                    given=form.given.detach(),
                    weight=form.weight.detach(),
                    left=weight.left,
                    out=get_gradient_edge(out),
                    made=tuple(out.shape),
                    pixels=not learnt,
                    leaves=weight.leaves,
                )
            )
            before = self._about(form.given).straight
            if before is not None and form.matrix(form.weight).shape[1] == len(before.slope):
                self.seen[before.product].behind.append((len(self.seen) - 1, before.slope))
            self._set(out, _Made(products=(*inherited[-LONGEST:], len(self.seen) - 1), learnt=True))
            return
        keeps = linear or name in LINEAR or (name in AFFINE and len(data) == 1)
        if name in AFFINE and len(data) > 1 and name.strip("_").rstrip("_") in ("add", "radd", "iadd", "sub", "isub"):
            keeps = True  # a sum is linear in both
        for value in tensors:
            self.otherwise |= self._about(value).leaves if not value.requires_grad else frozenset()
        # A bend of several steps, x / (1 + |x|), may hardly bend what goes into it either.
        kept = data if keeps else passing
        products = tuple(dict.fromkeys(p for value in kept for p in self._about(value).products))
        weights = any(self._about(value).leaves for value in tensors if not value.requires_grad)
        learnt = learnt or (weights and name in AFFINE)
        self._set(out, _Made(products=products[-2 * LONGEST :], learnt=learnt, straight=straight_))

    def _mixed(self, data: list[Tensor]) -> None:
        """Weights that each image mixes for itself, out of few: what it reads meets the arrays in this product."""
        for number in {number for value in data for number in self._about(value).products}:
            if self.seen[number].form.matrix(self.seen[number].weight).shape[1] < FEWEST_INPUTS:
                self.otherwise |= self.seen[number].leaves

    def _straight(
        self, data: list[Tensor], bends: list[tuple[int, GradientEdge, tuple[int, ...]]], out: object
    ) -> Straight | None:
        """What is known of a dense layer's units behind a bend, as long as nothing else is done to them."""
        if len(data) != 1 or not isinstance(out, Tensor):
            return None
        if bends:
            return straight_units(bends[-1][0], data[0], out)
        known = self._about(data[0]).straight
        same = known is not None and out.numel() == data[0].numel() and torch.equal(out.flatten(), data[0].flatten())
        return known if same else None


def _slope(made: Tensor | None, data: list[Tensor]) -> Tensor | None:
    """Of a step that takes every unit by itself; of another one, a number that explains nothing."""
    if made is None or len(data) != 1 or data[0].shape != made.shape:
        return None
    return torch.autograd.grad(made.sum(), data[0], retain_graph=True, allow_unused=True)[0]


def _keeps_most(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a dropout leaves most values: one that leaves few decides which image a row sees, as bins do."""
    share = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
    return not isinstance(share, float) or share <= MOST_DROPPED


def _opened(func: Any) -> Callable[..., Any] | None:  # noqa: ANN401
    """A function of `torch.nn.functional` that does not hand itself to us again, so that its body can be watched."""
    if func.__module__ not in ("torch.nn.functional", "torch.functional"):
        return None
    names = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    known = [n for n in names if n in func.__globals__ and n in func.__code__.co_names]
    if not known:
        return None
    never = dict.fromkeys(known, lambda *_: False)
    copied = types.FunctionType(
        func.__code__, {**func.__globals__, **never}, func.__name__, func.__defaults__, func.__closure__
    )
    copied.__kwdefaults__ = func.__kwdefaults__
    return copied


def _flat(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return [each for part in value.values() for each in _flat(part)]
    if isinstance(value, tuple | list):
        return [each for part in value for each in _flat(part)]
    return [value]


def watched(network: nn.Module, batch: Batch) -> tuple[Watch, Any]:
    """One forward pass of a network whose weights do not require gradients; inputs that are numbers do."""
    leaves = {id(value): name for name, value in [*network.named_parameters(), *network.named_buffers()]}
    watch = Watch(leaves)
    ready = batch.watched()
    with torch.enable_grad(), watch:
        out = network(*ready.inputs, **ready.named)
    return watch, out

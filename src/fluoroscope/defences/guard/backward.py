"""What training on a batch would send, layer by layer: every product with weights, what it reads, and its gradient.

The gradient of a product's weights is the sum over images of (gradient at its output) x (what it read). Both are taken
from one forward and one backward pass, by watching functions instead of modules: a weight may be a bare parameter, made
on the fly (weight norm, LoRA, any parametrisation), or multiplied by `einsum`. Where only linear steps lie between a
product and the next bend of the network, the gradient at the bend counts too: the server knows those steps, and can
undo them.
"""

import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.overrides import TorchFunctionMode

from fluoroscope.defences.guard.batches import Batch
from fluoroscope.defences.guard.contraction import Contraction, contraction
from fluoroscope.defences.guard.linear_steps import AFFINE, LINEAR, straight

MOST_BENDS = 4
"""Places where a product's values may bend that are looked at."""


@dataclass(frozen=True, eq=False)
class Product:
    """One product of something that comes from the images with weights."""

    name: str
    """Of the arrays that the weights are made of."""
    given: Tensor | None
    """(images, tokens, inputs); None where it is a convolution that slides, whose gradient adds up over places."""
    gradients: tuple[Tensor, ...]
    """(images, tokens, units): at its output, and at the next bends behind it."""
    pixels: bool
    """Nothing was learnt before it: it reads the input itself, perhaps in another order."""
    work: int
    """Multiplications for one image."""
    weight: Tensor
    """(units, inputs)."""
    apart: bool = False
    """Its tokens are layers beside each other."""


@dataclass(eq=False)
class _Seen:
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
    bends: list[tuple[GradientEdge, tuple[int, ...]]] = field(default_factory=list)


@dataclass(frozen=True)
class _Made:
    """What is known of a tensor: the products that it is linear in, or the arrays that it was made of."""

    products: tuple[int, ...] = ()
    leaves: frozenset[str] = frozenset()
    left: Tensor | None = None
    """The left factor of a weight that is a product of two."""
    learnt: bool = False
    """Comes from the images through weights."""


_NOTHING = _Made()


class Watch(TorchFunctionMode):
    """Watches one forward pass. Weights must not require gradients, inputs must: that tells them apart."""

    def __init__(self, leaves: Mapping[int, str]) -> None:
        super().__init__()
        self.leaves = leaves
        self.seen: list[_Seen] = []
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
        if "dropout" in name and args and isinstance(args[0], Tensor):
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
        for number, edge, shape in () if linear else bends:
            self.seen[number].bends.append((edge, shape))
        learnt = any(self._about(value).learnt for value in data)
        if form is not None and form.one_side and isinstance(out, Tensor) and out.requires_grad:
            weight = self._about(form.weight)
            inherited = self._about(form.given).products if form.carries else ()
            self.seen.append(
                _Seen(
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
            self._set(out, _Made(products=(*inherited[-MOST_BENDS:], len(self.seen) - 1), learnt=True))
            return
        keeps = linear or name in LINEAR or (name in AFFINE and len(data) == 1)
        if name in AFFINE and len(data) > 1 and name.strip("_").rstrip("_") in ("add", "radd", "iadd", "sub", "isub"):
            keeps = True  # a sum is linear in both
        products = tuple(dict.fromkeys(p for value in data for p in self._about(value).products)) if keeps else ()
        weights = any(self._about(value).leaves for value in tensors if not value.requires_grad)
        self._set(out, _Made(products=products[-2 * MOST_BENDS :], learnt=learnt or (weights and name in AFFINE)))


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
    inputs = [_ready(value) for value in batch.inputs]
    named = {name: _ready(value) for name, value in batch.named.items()}
    with torch.enable_grad(), watch:
        out = network(*inputs, **named)
    return watch, out


def _ready(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.detach().clone().requires_grad_()
    return value


def products(
    watch: Watch, loss: Tensor, images: int, chosen: Callable[[_Seen], bool] = lambda _: True
) -> list[Product]:
    """What the watched products read and what comes back to them."""
    wanted = [seen for seen in watch.seen if chosen(seen)]
    edges = [edge for seen in wanted for edge in (seen.out, *(edge for edge, _ in seen.bends))]
    if not edges or not loss.requires_grad:
        return []
    found = iter(torch.autograd.grad(loss, edges, allow_unused=True))
    made = []
    for seen in wanted:
        own = next(found)
        bends = [next(found) for _ in seen.bends]
        given = seen.form.samples(seen.given)
        gradients = []
        if own is not None:
            rows = _tokens(seen.form.units(own), images)
            gradients.append(rows)
            if seen.left is not None and seen.left.shape[0] == rows.shape[-1]:
                gradients.append(rows @ seen.left.to(rows))
        for bend in bends:
            if bend is None or own is None:
                continue
            if bend.shape == own.shape:
                gradients.append(_tokens(seen.form.units(bend), images))
            elif gradients[0].shape[1] == 1 and bend.shape[0] == images:
                gradients.append(bend.flatten(1)[:, None])
        made.append(
            Product(
                seen.name,
                None if given is None else _tokens(given, images),
                tuple(gradients),
                seen.pixels,
                seen.form.work // max(images, 1),
                seen.form.matrix(seen.weight),
                seen.form.apart,
            )
        )
    return made


def _tokens(values: Tensor, images: int) -> Tensor:
    """(leading..., width) as (images, tokens, width); (1, tokens, width) where it cannot be told whose they are."""
    width, lead = values.shape[-1], values.shape[:-1]
    if len(lead) > 1 and lead[0] != images and lead[1] == images:
        values = values.transpose(0, 1)
    count = math.prod(lead)
    if lead and (lead[0] == images or values.shape[0] == images or lead[0] % images == 0):
        return values.reshape(images, count // images, width)
    return values.reshape(1, count, width)

"""Which arrays of a network work on what, in which order: every product with a weight, as it happens.

Hooks see modules only; a crafted front may call `F.linear` on a bare parameter. So the functions are watched.
"""

import contextlib
import copy
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

PRODUCTS = {torch.matmul, torch.mm, Tensor.matmul, Tensor.mm, Tensor.__matmul__}
CONVOLUTIONS = {F.conv2d, torch.conv2d}
TRANSPOSED = {F.conv_transpose2d, torch.conv_transpose2d}
MOST_SAMPLES = 512
SMALLEST_MAP = 4
"""Places along a side, below which a 3x3 kernel covers the map by itself."""
LARGE_KERNEL = 8
PROBES = 2
"""Images of a run that only asks for shapes; BatchNorm wants more than one."""
Kind = Literal["dense", "conv", "transposed"]


@dataclass(frozen=True, eq=False)
class Step:
    """One product with a weight."""

    name: str
    """Of the weight in the state dict."""
    kind: Kind
    given: tuple[int, ...]
    """Shape of what it reads, without the batch."""
    made: tuple[int, ...]
    weight: Tensor
    """(units, inputs), whatever its shape was."""
    bias: Tensor | None
    stride: tuple[int, ...] = (1, 1)
    kernel: tuple[int, ...] = (1, 1)
    groups: int = 1
    reads_map: bool = False
    """A dense layer on a whole picture or feature map, place by place."""

    @property
    def products(self) -> int:
        """Multiplications for one image."""
        places = self.given if self.kind != "conv" else self.made
        return self.weight.numel() * (places[-1] * places[-2] if self.kind != "dense" else math.prod(places[:-1]))

    @property
    def spatial(self) -> bool:
        """Reads something that has more than one place."""
        return self.kind != "dense" and self.given[-1] * self.given[-2] > 1

    @property
    def whole_kernel(self) -> bool:
        """A convolution whose kernel is about as large as what it reads: a dense layer in disguise."""
        if self.kind != "conv" or self.groups > 1 or min(self.given[-2:]) < SMALLEST_MAP:
            return False
        covers = min(self.kernel) >= LARGE_KERNEL and 2 * min(self.kernel) >= max(self.given[-2:])
        return self.made[-1] * self.made[-2] == 1 or (covers and self.stride != self.kernel)

    @property
    def each_image(self) -> bool:
        """Sees an image as a whole, once."""
        return self.whole_kernel or (self.kind == "dense" and len(self.given) == 1)

    @property
    def patches(self) -> bool:
        """A convolution that reads each pixel once: a dense layer a patch."""
        return self.kind == "conv" and self.stride == self.kernel and max(self.kernel) > 1 and self.groups == 1


class _Enough(Exception):
    """All that was asked for has been seen."""


@dataclass
class _Watch:
    """What a run collects."""

    names: dict[int, str]
    real: dict[str, Tensor]
    """The arrays by name: a run on the meta device has shapes only."""
    wanted: Collection[str] | None = None
    """Names whose inputs are kept; the run ends after the last of them. None keeps none and runs to the end."""
    disturbed: str = ""
    """The output of this one is changed, to see what depends on it."""
    steps: list[Step] = field(default_factory=list)
    inputs: dict[str, Tensor] = field(default_factory=dict)
    raw: list[Tensor] = field(default_factory=list)
    maps: set[int] = field(default_factory=set)
    """Numbers of values of the maps (more than one place) that the network has made so far."""


class _Watching(TorchFunctionMode):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  # as torch has it
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if isinstance(out, Tensor) and out.ndim == 4 and out.shape[-1] * out.shape[-2] > 1:
            self.watch.maps.add(out[0].numel())
        kind: Kind | None = None
        if func is F.linear or func in PRODUCTS:
            kind = "dense"
        elif func in CONVOLUTIONS:
            kind = "conv"
        elif func in TRANSPOSED:
            kind = "transposed"
        if kind is None or not isinstance(out, Tensor) or len(args) + len(kwargs) < 2:
            return out
        return self._noted(kind, func, args, kwargs, out)

    def _noted(
        self, kind: Kind, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor
    ) -> Tensor:
        watch = self.watch
        given = args[0] if args else kwargs["input"]
        weight: Any = args[1] if len(args) > 1 else kwargs.get("weight", kwargs.get("other"))
        name = watch.names.get(id(weight)) or watch.names.get(id(getattr(weight, "_base", None)))
        if name is None or not isinstance(given, Tensor) or given.ndim < 2 or weight.ndim not in (2, 4):
            return out
        given_bias = args[2] if len(args) > 2 and func not in PRODUCTS else kwargs.get("bias")
        bias = watch.real.get(watch.names.get(id(given_bias), f"{name.removesuffix('weight')}bias"))
        real = watch.real[name]
        upright = func not in PRODUCTS or weight.stride(-1) != 1  # x @ W.T has its rows for units, x @ W its columns
        matrix = _matrix(kind, upright, real)
        stride, kernel = _pair(args[3] if len(args) > 3 else kwargs.get("stride", 1)), tuple(weight.shape[2:])
        groups = 1 if kind == "dense" else int(args[6] if len(args) > 6 else kwargs.get("groups", 1))
        step = Step(
            name=name,
            kind=kind,
            given=tuple(given.shape[1:]),
            made=tuple(out.shape[1:]),
            weight=matrix,
            bias=bias if bias is not None and bias.shape == (len(matrix),) else None,
            stride=stride,
            kernel=kernel,
            groups=groups,
            reads_map=kind == "dense" and given[0].numel() == given.shape[-1] and given.shape[-1] in watch.maps,
        )
        watch.steps.append(step)
        if watch.disturbed:
            watch.raw.append(given.detach())
            if name == watch.disturbed:
                return out + 1.0 + out.abs().mean()
        if watch.wanted is not None and name in watch.wanted:
            watch.inputs.setdefault(name, _samples(step, given.detach()))
            if len(watch.inputs) == len(set(watch.wanted)):
                raise _Enough
        return out


def _matrix(kind: Kind, upright: bool, weight: Tensor) -> Tensor:
    matrix = weight.detach().flatten(1)
    return matrix if upright and kind != "transposed" else matrix.T


def _pair(value: Any) -> tuple[int, ...]:  # noqa: ANN401
    return tuple(value) * (2 // len(value)) if isinstance(value, tuple | list) else (int(value), int(value))


def _samples(step: Step, given: Tensor) -> Tensor:
    """What the units see, one row a time: images, or patches, or tokens."""
    if step.kind == "dense":
        rows = given.reshape(-1, given.shape[-1])
    else:
        kernel = (given.shape[-2], given.shape[-1]) if step.whole_kernel else step.kernel
        if step.whole_kernel and kernel != step.kernel:  # padded: what it reads is framed in zeros
            pad = [step.kernel[1] - kernel[1], step.kernel[0] - kernel[0]]
            given = F.pad(given, (pad[0] // 2, pad[0] - pad[0] // 2, pad[1] // 2, pad[1] - pad[1] // 2))
        rows = F.unfold(given, step.kernel, stride=step.stride).transpose(1, 2).reshape(-1, step.weight.shape[1])
    if len(rows) > MOST_SAMPLES:
        rows = rows[torch.linspace(0, len(rows) - 1, MOST_SAMPLES).long()]
    return rows.float()


class Traced:
    """A copy of the network that can be run and watched; the network itself is left alone."""

    def __init__(self, network: nn.Module) -> None:
        self._network = copy.deepcopy(network).float().eval().requires_grad_(False)
        for module in self._network.modules():  # as a client trains: each batch by its own statistics
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.train()
        self._real = _tensors(self._network)

    def steps(self, shape: tuple[int, ...]) -> list[Step]:
        """Every product with a weight, in order, for images of this shape."""
        return self._run(self._network, torch.zeros(PROBES, *shape), self._watch(self._network)).steps

    def inputs(self, images: Tensor, wanted: Collection[str]) -> dict[str, Tensor]:
        """What the named layers see of these images, (samples, inputs)."""
        return self._run(self._network, images, self._watch(self._network, wanted=wanted)).inputs

    def depend(self, images: Tensor, name: str) -> list[bool]:
        """Of every step, whether what it reads depends on what this layer makes."""
        plain = self._run(self._network, images, self._watch(self._network, disturbed="-")).raw
        changed = self._run(self._network, images, self._watch(self._network, disturbed=name)).raw
        return [not torch.equal(a, b) for a, b in zip(plain, changed, strict=False)]

    def _watch(self, network: nn.Module, wanted: Collection[str] | None = None, disturbed: str = "") -> _Watch:
        names = {id(value): name for name, value in _tensors(network).items()}
        return _Watch(names, self._real, wanted, disturbed)

    def _run(self, network: nn.Module, images: Tensor, watch: _Watch) -> _Watch:
        watch.maps.add(images[0].numel() if images.ndim == 4 else -1)
        with torch.no_grad(), _frozen(network), contextlib.suppress(_Enough), _Watching(watch):
            network(images)
        return watch


def _tensors(network: nn.Module) -> dict[str, Tensor]:
    return dict(network.named_parameters()) | dict(network.named_buffers())


@contextlib.contextmanager
def _frozen(network: nn.Module) -> Iterator[None]:
    """Runs must not add up in BatchNorm's statistics."""
    kept = {name: value.clone() for name, value in network.named_buffers()}
    try:
        yield
    finally:
        for name, value in network.named_buffers():
            value.copy_(kept[name])

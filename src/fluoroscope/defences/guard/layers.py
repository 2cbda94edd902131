"""The layers that can single out an image, and what they see.

A gradient of a dense layer is a sum over images of (coefficient x input): a unit that only one image touches hands that
image over. A convolution sums over places as well, unless it reads each place once (patches) or the whole (a kernel as
large as the image). So these are looked at: dense layers, patches, whole kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fluoroscope.defences.guard.stand_ins import MOST_CHANNELS, MOST_TRIED, likely_shapes, square_side, stand_ins
from fluoroscope.defences.guard.trace import Step, Traced
from fluoroscope.rng import generator
from fluoroscope.types import State

FEWEST_OF_LARGE = 16
FEW, ENOUGH, MANY = 2, 64, 128
"""Images that show how a network is laid out, how the units of a layer divide them, and as many as can be useful."""
PRODUCTS = 4 * 10**9
"""Multiplications for one set of images: tenths of a second. Counted, not timed, so that a verdict is repeatable."""


LARGEST = 1e9
UNFIT = (RuntimeError, ValueError, IndexError, TypeError, AssertionError, NotImplementedError)
"""What networks say of images that they cannot take."""


@dataclass(frozen=True, eq=False)
class Layer:
    """A dense layer, or one in disguise."""

    name: str
    weight: Tensor
    """(units, inputs)."""
    bias: Tensor
    """Zeros where there is none."""
    last: bool
    """Makes the model's answer; no rectifier follows."""
    seen: tuple[Tensor, ...]
    """What it reads of the client's images, and of the stand-ins: (samples, inputs) each. Empty where unknown."""
    pixels: bool = False
    """Reads the image itself."""
    deep: bool = False
    """Reads what another dense layer made, and not an image or a map of one."""
    each: str = "image"
    """What a sample is: an image, or a patch or token of one."""
    imagined: bool = False
    """Nothing is known of what it reads: `seen` is a likeness of feature maps, right up to its scale."""
    seed: int = 0
    """Of what checks draw: the client's."""

    @property
    def units(self) -> int:
        return len(self.weight)

    @property
    def inputs(self) -> int:
        return self.weight.shape[1]


@dataclass(frozen=True, eq=False)
class Anatomy:
    """A model taken apart."""

    state: State
    layers: tuple[Layer, ...]
    steps: tuple[Step, ...] = ()
    """In the order of a run; empty where the model could not be run."""
    traced: Traced | None = None
    probe: Tensor | None = None
    """A few images that the network takes."""


def dissect(network: nn.Module, images: Tensor | None) -> Anatomy | None:
    """Run the network and see what its layers see; None where no shape of image fits it."""
    state, traced = network.state_dict(), Traced(network)
    for shape in [tuple(images.shape[1:])] if images is not None else islice(likely_shapes(state), MOST_TRIED):
        try:
            steps = traced.steps(shape)
        except UNFIT:
            continue
        if not steps:
            return None  # it runs, but no array that has a name is multiplied as it is
        return Anatomy(state, _layers(traced, steps, shape, images), tuple(steps), traced, stand_ins(shape, FEW))
    return None


def _layers(traced: Traced, steps: Sequence[Step], shape: tuple[int, ...], images: Tensor | None) -> tuple[Layer, ...]:
    chosen = list({s.name: s for s in steps if s.kind == "dense" or s.whole_kernel or s.patches}.values())
    final = steps[-1].name
    hidden = [step.name for step in chosen if step.name != final]
    seen: list[dict[str, Tensor]] = [{} for _ in range(1 if images is None else 2)]
    for wanted, least in ((hidden, ENOUGH), ([final] if chosen and chosen[-1].name == final else [], 0)):
        number = _affordable(steps, set(wanted), least) if wanted else 0
        if number >= FEW:
            sets = [] if images is None else [images[:number].float()]
            for found, some in zip(seen, [*sets, stand_ins(shape, number)], strict=True):
                found |= traced.inputs(some, wanted)
    kept = {step.name: tuple(f[step.name] for f in seen if step.name in f and usable(f[step.name])) for step in chosen}
    lost = [name for name, left in kept.items() if not left and any(name in found for found in seen)]
    return tuple(
        Layer(
            name=step.name.removesuffix(".weight"),
            weight=step.weight.float(),
            bias=torch.zeros(len(step.weight)) if step.bias is None else step.bias.detach().float(),
            seen=kept[step.name] or ((likeness(step.weight.shape[1], 1),) if step.name in lost else ()),
            last=step.name == final,
            pixels=step is steps[0] and step.each_image,
            deep=i > 0 and not (step.reads_map or step.whole_kernel or step.patches),
            each="patch" if step.patches else "image" if step.each_image else "token",
            imagined=step.name in lost,
        )
        for i, step in enumerate(chosen)
    )


def usable(seen: Tensor) -> bool:
    """Whether sums and squares of these values stay finite; those of a model that has diverged do not."""
    return bool(torch.isfinite(seen).all()) and float(seen.abs().max()) < LARGEST


def _affordable(steps: Sequence[Step], wanted: set[str], least: int) -> int:
    """How many images may go through the network up to the last wanted layer, by the products that this takes."""
    last = max(i for i, step in enumerate(steps) if step.name in wanted)
    work = sum(step.products for step in steps[:last])
    most = PRODUCTS // max(work, 1)
    return max(min(least, max(most, FEWEST_OF_LARGE)), min(MANY, most))


def from_state(state: State, images: Tensor | None) -> Anatomy:
    """Dense layers by the shapes of the arrays alone; a first one that fits square images is shown some."""
    names = [n for n, v in state.items() if v.ndim in (2, 4) and v.is_floating_point()]
    dense = [n for n in names if state[n].ndim == 2 or _large_kernel(state[n])]
    layers = []
    for i, name in enumerate(names):
        if name not in dense:
            continue
        value = state[name].detach().float()
        weight = value.flatten(1)
        bias = state.get(f"{name.removesuffix('weight')}bias") if name.endswith("weight") else None
        seen = _shown(value, images) if i == 0 else ()
        layers.append(
            Layer(
                name=name.removesuffix(".weight"),
                weight=weight,
                bias=bias.detach().float()
                if bias is not None and len(bias) == len(weight)
                else torch.zeros(len(weight)),
                seen=seen or (likeness(weight.shape[1], len(state[names[i - 1]]) if i else 1),),
                last=name == names[-1],
                pixels=bool(seen) and value.ndim == 2,
                deep=name != dense[0],
                imagined=not seen,
            )
        )
    return Anatomy(state, tuple(layers))


def likeness(inputs: int, channels: int) -> Tensor:
    """What a rectified convolution makes of the stand-ins, flattened; without a map, values that are never negative."""
    rng = generator(0, "guard", "likeness", inputs, channels)
    side = square_side(inputs, channels)
    if side is None or side < 2:
        shade = torch.rand(MANY, 1, generator=rng)
        return shade * (0.5 + torch.rand(MANY, inputs, generator=rng))
    images = stand_ins((1, side + 2, side + 2), MANY)
    kernels = torch.randn(channels, 1, 3, 3, generator=rng)
    return F.relu(F.conv2d(images, kernels)).flatten(1)


def _large_kernel(value: Tensor) -> bool:
    """A whole kernel, or one that reads patches: it reads pixels, and more of them than its neighbours' kernels do."""
    return value.shape[1] <= MOST_CHANNELS and value.shape[2] >= 4 and value.shape[2] == value.shape[3]


def _shown(value: Tensor, images: Tensor | None) -> tuple[Tensor, ...]:
    """Images as the first layer reads them, if it reads squares."""
    inputs = value[0].numel()
    own = [images[:MANY].float().flatten(1)] if images is not None and images[0].numel() == inputs else []
    for c in [value.shape[1]] if value.ndim == 4 else [1, 3]:
        side = square_side(inputs, c)
        if side is not None and side >= (8 if value.ndim == 2 else 4):
            return (*own, stand_ins((c, side, side), MANY if inputs < 20000 else ENOUGH).flatten(1))
    return tuple(own)

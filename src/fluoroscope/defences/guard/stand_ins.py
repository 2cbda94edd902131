"""Images that stand in for the client's own: nobody's, smooth, and of every brightness from black to white.

Crafted thresholds are placed where images of some kind differ, and the guard may not know the kind. Pictures that
cover the whole range of brightness, contrast and coarse shape meet them wherever they are.
"""

from collections.abc import Iterator
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor

from fluoroscope.rng import generator
from fluoroscope.types import State

SIZES = (32, 28, 64, 224, 128, 96, 48, 256, 299, 160, 192, 384, 512, *range(16, 320))
MOST_CHANNELS, SMALLEST = 4, 16
MOST_TRIED = 40


def stand_ins(shape: tuple[int, ...], images: int) -> Tensor:
    """(images, *shape) in [0, 1], the same at every call."""
    rng = generator(0, "guard", "stand-ins", images, *shape)
    if len(shape) == 1:
        return _smooth((images, 1, shape[0], 1), rng).flatten(1)
    if len(shape) == 2:
        return _smooth((images, shape[0], shape[1], 1), rng)[..., 0]
    channels, *depths, height, width = shape
    if not depths:
        return _smooth((images, channels, height, width), rng)
    slices = _smooth((2 * images, channels, height, width), rng)
    along = torch.linspace(0, 1, depths[0]).view(-1, 1, 1)
    volume: Tensor = (1 - along) * slices[:images, :, None] + along * slices[images:, :, None]
    return volume  # goes over from one picture into another


def _smooth(shape: tuple[int, int, int, int], rng: torch.Generator) -> Tensor:
    n, _, height, width = shape
    made = torch.zeros(shape)
    for grid in (2, 4, 9):
        coarse = torch.randn(n, shape[1], min(grid, height), min(grid, width), generator=rng)
        weight = torch.rand(n, 1, 1, 1, generator=rng)
        made += weight * F.interpolate(coarse, size=(height, width), mode="bilinear", align_corners=True)
    level = torch.rand(n, 1, 1, 1, generator=rng)
    contrast = 0.05 + 0.25 * torch.rand(n, 1, 1, 1, generator=rng)
    made = level + contrast * made + 0.02 * torch.randn(shape, generator=rng)
    y = torch.linspace(-1, 1, height).view(1, 1, -1, 1)
    x = torch.linspace(-1, 1, width).view(1, 1, 1, -1)
    inside = (x**2 + y**2) < (0.6 + 0.6 * torch.rand(n, 1, 1, 1, generator=rng))
    framed = torch.rand(n, 1, 1, 1, generator=rng) < 0.5  # scans have a black surround
    return torch.where(framed & ~inside, torch.zeros(()), made).clamp(0, 1)


def likely_shapes(state: State) -> Iterator[tuple[int, ...]]:
    """Shapes of one input that a network of these arrays may take, the likeliest first."""
    weights = [value for value in state.values() if value.ndim in (2, 4)]
    kernels = [value.shape[1] for value in weights if value.ndim == 4 and value.shape[1] <= MOST_CHANNELS]
    channels = list(dict.fromkeys([*kernels[:1], 1, 3]))
    dense = [value.shape[1] for value in weights if value.ndim == 2]
    whole = [value.shape[2] for value in weights[:1] if value.ndim == 4 and value.shape[2] >= SMALLEST]
    for c in channels:
        fitting = [side for d in dense[:1] if (side := square_side(d, c)) is not None and side >= SMALLEST]
        for side in dict.fromkeys([*whole, *fitting, *SIZES]):
            yield (c, side, side)
    for width in dense[:1]:
        yield (width,)


def shapes_to_try(state: State) -> list[tuple[int, ...]]:
    """The likeliest shapes of one input, in two dimensions, three or one: few enough to try them all."""
    volumes = [value.shape[1] for value in state.values() if value.ndim == 5]
    series = [value.shape[1] for value in state.values() if value.ndim == 3]
    if volumes:
        return [(volumes[0], side, side, side) for side in (32, 64, 96, 48, 16, 28, 128)]
    tried = list(islice(likely_shapes(state), MOST_TRIED))
    first = next((value for value in state.values() if value.ndim == 2), None)
    if first is not None and (first.shape[1],) not in tried:
        tried.append((first.shape[1],))
    return [*((c, 128) for c in series[:1]), *tried]


def square_side(features: int, channels: int) -> int | None:
    """The side of a square image of so many channels and values in all, if there is one."""
    side = round((features / channels) ** 0.5)
    return side if side * side * channels == features else None

"""What a malicious server can expect before it sends anything: its decoder on images like its own."""

from collections.abc import Callable

import torch
from torch import Tensor

from fluoroscope.attacks.imprint import Crafted, Recovered
from fluoroscope.attacks.imprint.craft import FIRST
from fluoroscope.federation.secure_aggregation import SecAgg
from fluoroscope.scores.recovery import recovery
from fluoroscope.types import State

SHIFT = 2
"""Pixels by which an auxiliary image is moved, at most, per 28 of its side."""
BLENDED = 0.2
"""Of another auxiliary image that is mixed in, at most: moved copies of one image alone are too alike."""


def foreseen_rate(
    crafted: Crafted, decoder: Callable[[Crafted, State], Recovered], clients: int, rng: torch.Generator
) -> float:
    """The recovery rate that a rehearsal without any victim gives.

    As many images as the victim has are made of the auxiliary ones: mirrored, moved, mixed. Their sums are
    put together as an ideal round would, with float32's rounding and, where there are several clients, the grid of
    secure aggregation.
    """
    images = _alike(crafted.auxiliary, crafted.images, rng)
    size = crafted.coefficient * (0.8 + 0.4 * torch.rand(len(images), generator=rng, dtype=torch.float64))
    values = size * (1 - 2 * torch.randint(0, 2, (len(images),), generator=rng))
    update = _summed(crafted, images, values)
    if clients > 1:
        # Stochastic rounding of each client's weighed share; all clients have as many images.
        step, weight = SecAgg().step, len(images) / SecAgg().max_weight
        for name, value in update.items():
            noise = torch.randn(value.shape, generator=rng, dtype=torch.float64)
            update[name] = (value + step * (clients / 6) ** 0.5 / weight * noise) / clients
    found = decoder(crafted, update)
    return recovery(found.images, images).rate.mean if len(found) else 0.0


def _alike(auxiliary: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """So many different images of the auxiliary ones."""
    rounds = -(-count // len(auxiliary))
    order = torch.cat([torch.randperm(len(auxiliary), generator=rng) for _ in range(rounds)])[:count]
    most = max(1, SHIFT * auxiliary.shape[-1] // 28)
    made = []
    for number, i in enumerate(order.tolist()):
        image = auxiliary[i]
        if number >= len(auxiliary):  # the first time as it is
            moved = torch.randint(-most, most + 1, (2,), generator=rng).tolist()
            padded = torch.nn.functional.pad(image[None], [most] * 4, mode="replicate")[0]
            height, width = image.shape[1:]
            image = padded[:, most + moved[0] :, most + moved[1] :][:, :height, :width]
            image = image.flip(-1) if torch.rand((), generator=rng) < 0.5 else image
            share, other = torch.rand((), generator=rng), int(torch.randint(len(auxiliary), (), generator=rng))
            image = (1 - BLENDED * share) * image + BLENDED * share * auxiliary[other]
        made.append(image)
    return torch.stack(made)


def _summed(crafted: Crafted, images: Tensor, values: Tensor) -> dict[str, Tensor]:
    """The first layer's update, as float32 weights keep it."""
    bins, front = crafted.bins, crafted.network.front
    assert front is not None
    pixels = images.flatten(1).double()
    weight = torch.zeros(bins.neurons, pixels.shape[1], dtype=torch.float64)
    bias = torch.zeros(bins.neurons, dtype=torch.float64)
    for i, feature in enumerate(bins.features):
        place = bins.locate(i, feature(images))
        inside = place >= 0
        rows = (i * bins.width + place)[inside]
        weight.index_add_(0, rows, (values[:, None] * pixels)[inside])
        bias.index_add_(0, rows, values[inside])
        if front.activation == "relu":  # a neuron fires for all bins above its threshold
            own = slice(i * bins.width, (i + 1) * bins.width)
            weight[own] = weight[own].flip(0).cumsum(0).flip(0)
            bias[own] = bias[own].flip(0).cumsum(0).flip(0)
    update = {f"{FIRST}.weight": weight, f"{FIRST}.bias": bias}
    before = {name: crafted.victim[name] for name in update}
    return {name: (before[name] + value.float()).double() - before[name].double() for name, value in update.items()}

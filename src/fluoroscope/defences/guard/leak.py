"""What one product of a network gives away, in batches of several sizes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fluoroscope.defences.guard.isolation import NOTHING, Crowd, Reading, read

SIZES = ((16, 4), (32, 3), (64, 2), (128, 1))
"""Images in a batch, and how many such batches are drawn: bins for few images show with few."""
FEWEST, LEAST, SHORTEST = 4, 16, 4
"""Images that go through any network, inputs of a layer that can hold a picture, and values of a row of a table."""


@dataclass(frozen=True)
class Leak:
    """What one product gives away."""

    inputs: int
    """Values that a row of it reads."""
    units: int
    """Rows."""
    held: float
    """How far what it reads holds the picture: 1 for the picture itself, 0 for a few pooled features."""
    shares: Mapping[int, Reading]
    """For batches of so many images, what can be read of them, times `held`."""
    tokens: float = 0.0
    """Share of the rows in which one token, or patch, stands alone."""
    clear: float = 1.0
    """Whether what is read has enough values to recognise somebody by."""
    crowd: Crowd | None = None
    """How the images share its rows; None where its rows are not known."""
    undone: bool = False
    """Its rows are combinations that the server knows."""
    beyond: bool = False
    """Its rows are what is left beyond what the next layers make of any image."""
    weight: Tensor | None = field(default=None, compare=False, repr=False)
    """(units, inputs): the rows themselves."""


def drawn(
    rows: list[Tensor], given: Tensor, images: int, rng: torch.Generator, held: float = 1.0
) -> dict[int, Reading]:
    """What can be read of smaller batches, drawn from the whole: the mean of several."""
    shares = {}
    for size, repeats in SIZES if images >= SIZES[0][0] else ((images, 1),):
        if size > images:
            continue
        chosen = [torch.randperm(images, generator=rng)[:size] for _ in range(repeats)]
        each = [max((read(r[c], given[c], rng) for r in rows), key=lambda x: x.apart, default=NOTHING) for c in chosen]
        alone, apart = sum(x.alone for x in each) / repeats, sum(x.apart for x in each) / repeats
        shares[size] = Reading(held * alone, held * apart, sum(x.rows for x in each) / repeats)
    return shares


def largest(leak: Leak) -> float:
    """Share that can be read of some batch."""
    return max((reading.apart for reading in leak.shares.values()), default=0.0)

"""Whose gradient it is: what every image and every class has of what reaches the body of the network."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from fluoroscope.defences.guard.products import Product
from fluoroscope.defences.guard.watch import Watch

FEW, DRAWS = 16, 64
"""Images of a small batch, and how many such batches are drawn."""
NOTHING = 1e-6
"""Of the mean image's energy: a small batch with less has no gradient that anybody could own."""
MOST_CLASSES, DEEPEST = 16, 3
"""Classes that are asked for one by one, and the last products at which they are."""


class Shares(NamedTuple):
    """Of the energy that reaches the first product."""

    owned: float
    """The largest share of one image."""
    passed: float
    """Its size over that of the gradient at the network's output."""
    owned_of_few: float
    """The largest share of one image in a batch of FEW, on the mean over batches that have any gradient."""


def shares(found: list[Product], images: int, rng: torch.Generator) -> Shares:
    """What the images have of the gradient at each product that reads pixels, the worst of them.

    A branch may have a gate of its own. Nobody owns anything where there is only one product.
    """
    last = found[-1].gradients
    reading = [each for each in found[:-1] if (each is found[0] or each.pixels) and not each.undone]
    energies = [_energy(each, images) for each in reading]
    known = [energy for energy in energies if energy is not None]
    if not known or not last:
        return Shares(0.0, 1.0, 0.0)
    out = float(last[0].double().square().sum())
    owned = max(float(energy.max()) / max(float(energy.sum()), 1e-300) for energy in known)
    passed = min(math.sqrt(float(energy.sum()) / out) if out > 0 else 1.0 for energy in known)
    return Shares(owned, passed, max(_of_few(energy, rng) for energy in known))


def _energy(product: Product, images: int) -> Tensor | None:
    """(images,) of the gradient at what a product gives."""
    if not product.gradients or len(product.gradients[0]) != images:
        return None
    return product.gradients[0].double().flatten(1).square().sum(dim=1)


def _of_few(energy: Tensor, rng: torch.Generator) -> float:
    if len(energy) <= FEW:
        return 0.0
    drawn = energy[torch.stack([torch.randperm(len(energy), generator=rng)[:FEW] for _ in range(DRAWS)])]
    whole = drawn.sum(dim=1)
    some = whole > NOTHING * energy.mean()
    return float((drawn.amax(dim=1)[some] / whole[some]).mean()) if bool(some.any()) else 0.0


def class_ratio(watch: Watch, last: Tensor, out: object) -> float:
    """How much more gradient the images of one class get than those of the next, whichever label they have.

    At the features that the last layer reads; and behind the products before it, since a head may be two.

    Args:
        watch: of a forward pass whose graph is kept.
        last: weights of the last product.
        out: what the network returned.
    """
    if not isinstance(out, Tensor) or out.ndim != 2 or out.shape[1] < 3:
        return 1.0
    ratios = [_at_features(last, out)] if len(last) == out.shape[1] else []
    edges = [seen.out for seen in watch.seen[-DEEPEST:-1]]
    if edges and out.shape[1] <= MOST_CLASSES:
        energy = [_of_class(out, c, edges) for c in range(out.shape[1])]
        ratios += [_leading(torch.stack(each)) for each in zip(*energy, strict=True)]
    return max(ratios, default=1.0)


def _of_class(out: Tensor, label: int, edges: Sequence[GradientEdge]) -> list[Tensor]:
    """Energy at each place if all images had this label."""
    loud = out.detach().float().softmax(dim=1)
    loud[:, label] -= 1
    found = torch.autograd.grad(out, edges, loud.to(out), retain_graph=True, allow_unused=True)
    return [torch.zeros(()).double() if g is None else g.double().square().sum() for g in found]


def _at_features(weight: Tensor, out: Tensor) -> float:
    weight = weight.double()
    chance = out.detach().double().softmax(dim=1)
    products_ = weight @ weight.T
    mixed = chance @ products_
    energy = (mixed * chance).sum(dim=1, keepdim=True) - 2 * mixed + products_.diagonal()
    return _leading(energy.clamp_min(0).mean(dim=0))


def _leading(energy: Tensor) -> float:
    """The largest over the next largest, as sizes."""
    largest = energy.sqrt().sort(descending=True).values
    return float(largest[0] / largest[1].clamp_min(1e-30)) if float(largest[0]) > 0 else 1.0

"""Combinations of a layer's rows that a server knows: where a bend leaves units straight, it undoes what follows.

A rectifier bends units that fire for some images. Those that fire for all pass on a line, and the units of the next
layer are plain combinations of their rows: with an inverse of the next layer's weights the server has the gradient of
each of its units, beside what *this* layer read. A gate deep inside then shows pixels, though no row and no difference
of two shows any, in either layer. A secret combination (SEER, arXiv 2306.03013) is one of these.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.defences.guard.linear_steps import lines

DEEPEST = 3
"""Layers behind each other that are undone."""
MULTIPLICATIONS = 2 * 10**10
"""Of an inverse, about half a second: larger layers are left out."""
RIDGE = 1e-6
"""Of the mean energy of the next layer's units: what is weaker than its rounding is not told apart."""
ROUNDING = 1e-5
"""Of the largest gradient, below which an undone one is nothing."""
SPANNED, MOST_SPANNED = 1e-10, 0.5
"""Energy of a direction beside the strongest, above rounding; and directions that are few beside images and units."""


@dataclass(frozen=True, eq=False)
class Straight:
    """What a bend did to a dense layer's units."""

    product: int
    """The layer's number."""
    slope: Tensor
    """(units,) from its values to those behind the bend; 0 where the bend bent this batch, or let nothing through."""


def straight_units(product: int, given: Tensor, made: object) -> Straight | None:
    """Which units of (images, units) came through a bend on a line; None where none did."""
    found = lines(given, made)
    if found is None:
        return None
    slope = torch.where(found.bent, torch.zeros_like(found.slope), found.slope)
    return Straight(product, slope) if bool((slope != 0).any()) else None


def combinations(weight: Tensor, slope: Tensor, behind: Tensor | None = None) -> Tensor | None:
    """(units, m): the combinations of a layer's rows whose gradient is that of each unit of the next, or of its own.

    Args:
        weight: of the next layer, (units of the next, units).
        slope: of each unit through the bend between the two.
        behind: combinations of the next layer's rows, (units of the next, m); each of them by itself by default.

    Returns:
        The least-squares inverse of the next layer seen through the units that are straight; None where it is too large
        to be inverted.
    """
    through = weight.float() * slope.float()
    rows, columns = through.shape
    if rows * rows * columns > MULTIPLICATIONS:
        return None
    energy = through @ through.T
    size = float(energy.diagonal().mean())
    if not size > 0:
        return None
    energy.diagonal().add_(RIDGE * size)
    target = torch.eye(rows) if behind is None else behind.float()
    factor, failed = torch.linalg.cholesky_ex(energy)
    if int(failed) or not bool(torch.isfinite(factor).all()):
        return None
    return through.T @ torch.cholesky_solve(target, factor)


def undone(gradient: Tensor, mixture: Tensor) -> Tensor:
    """(images, 1, m): what the combinations have of (images, 1, units), without rounding."""
    rows = gradient @ mixture.to(gradient)
    return torch.where(rows.abs() > ROUNDING * rows.abs().max(), rows, torch.zeros_like(rows))


def beyond(before: Tensor, behind: Tensor, slope: Tensor | None = None) -> Tensor | None:
    """(images, 1, units): what a bend adds to a gradient that the layers behind it do not make of any image.

    Behind a bend the gradients of all images lie in a space of few dimensions, as many as the next layer has units, and
    the server knows it: it sent the weights. What is left without it is the bend's alone: which units an image opens or
    shuts. So a leaky rectifier, which shuts for nobody, and units that are shut for one image only show single images.

    Args:
        before: gradient at what goes into the bend, (images, 1, units).
        behind: at what comes out.
        slope: the bend's derivative: what does not come by way of it goes past it, by weights that are known, too.

    Returns:
        None where the space is not small beside images and units.
    """
    rows, after = before[:, 0].double(), behind[:, 0].double()
    basis = _span(after)
    if slope is not None and slope.shape == behind.shape:
        past = rows - slope[:, 0].double() * after
        if float(past.norm()) > ROUNDING * float(rows.norm()):
            both = _span(torch.cat([after / after.norm().clamp_min(1e-300), past / past.norm()]))
            basis = basis if both is None else both
    if basis is None:
        return None
    left = rows - (rows @ basis) @ basis.T
    return torch.where(left.abs() > ROUNDING * rows.abs().max(), left, torch.zeros_like(left))[:, None].to(before)


def _span(rows: Tensor) -> Tensor | None:
    """(units, dimensions): an orthonormal basis of the space that (images, units) lie in, where it is small."""
    values, vectors = torch.linalg.eigh(rows @ rows.T)
    kept = values > SPANNED * values[-1].clamp_min(1e-300)
    if not 0 < int(kept.sum()) <= MOST_SPANNED * min(rows.shape):
        return None
    basis: Tensor = (rows.T @ vectors[:, kept]) / values[kept].sqrt()
    return basis

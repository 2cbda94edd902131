"""From mixtures of sparse, non-negative maps to the maps themselves.

The basis that `feature_maps` gives spans the images' features in an arbitrary mixture. The features came out of a ReLU:
each has a zero in half of its places, and no mixture of two has. The sparsest vectors of the space are the features.
Some directions of the basis are known better than others: an image that the network was sure of leaves a gradient near
the rounding of the weights. A mixture's zeros are as blunt as its own directions are.
"""

from collections.abc import Callable

import torch
from torch import Tensor

STARTS = 96
PATIENCE = 3
"""Rounds of starts without anything new before the rest is given up."""
ITERATIONS = 40
BELOW_ZERO = 10.0
"""How much more a value counts that is below zero: the difference of two images is sparse too, but no feature."""
BLUNT = 0.05
"""Of a place's largest value, where the search begins: a blunter one has every start end at the same few maps."""
ZERO = 3e-3
"""Of the root mean square: what rounding leaves of a zero."""
DEVIATIONS = 3.0
"""Errors within which a value counts as zero."""
MOST_ERROR = 0.1
"""Beyond it a mixture's zeros are too blunt to be told from small values."""
LEAST_ZEROS = 0.05
BY_CHANCE = 2.0
"""Zeros over those that values without any zero have within the same width: a density of .8 or less at 0, doubled."""
MOST_NEGATIVE = 0.01
NEGATIVE = 0.1
"""Of the norm of a single map, what may lie below zero."""
ALIKE = 1 - 1e-3


def unmix(
    basis: Tensor, rng: torch.Generator, errors: Tensor | None = None, tick: Callable[[], None] = lambda: None
) -> Tensor:
    """The sparse maps (found, channels, h, w), each of norm 1, in the span of an orthonormal basis of that shape.

    As many as there are in the basis, unless some are not found. `errors` are those of the basis, map by map: of their
    values, relative to the root mean square. `tick` is called now and then: a hundred images take minutes.
    """
    count = len(basis)
    flat = basis.flatten(1).T
    errors = flat.new_zeros(count) if errors is None else errors
    if count == 1:
        single = basis * torch.sign(flat.sum())
        return single[rectified(single) & (errors < MOST_ERROR)]
    norms = flat.norm(dim=1)
    rows = flat[norms > 1e-2 * norms.square().mean().sqrt()]  # a place where every image has its zero says nothing
    found = flat.new_zeros(0, count)
    idle = 0
    while idle < PATIENCE and len(found) < count:
        tick()
        had = len(found)
        # The mixture that is largest at one place leans to the images that stand out there (Qu, Sun and Wright 2014).
        starts = rows[torch.randperm(len(rows), generator=rng)[:STARTS]]
        if len(found):  # look where nothing was found yet
            known = torch.linalg.qr(found.T).Q
            starts = starts - starts @ known @ known.T
        starts = starts / starts.norm(dim=1, keepdim=True).clamp_min(1e-12)
        for candidate in _sparse(rows, _sparsest(rows, starts, errors), errors):
            if not len(found) or (found @ candidate).max() < ALIKE:
                found = torch.cat([found, candidate[None]])
        idle = 0 if len(found) > had else idle + 1
    return (found[:count] @ basis.flatten(1)).view(-1, *basis.shape[1:])


def rectified(maps: Tensor, negative: float = NEGATIVE) -> Tensor:
    """Which of these maps may have come out of a ReLU: at most this part of their norm is below zero."""
    flat = maps.flatten(1)
    found: Tensor = flat.clamp_max(0).norm(dim=1) < negative * flat.norm(dim=1)
    return found


def _sparsest(rows: Tensor, mixtures: Tensor, errors: Tensor) -> Tensor:
    """Local minima of the L1 norm on the unit sphere, what is below zero counting more: reweighted least squares."""
    lengths = rows.norm(dim=1)
    units = rows / lengths[:, None]
    typical = len(rows) ** -0.5  # the root mean square of a map of norm 1
    for iteration in range(ITERATIONS):
        blunt = max(1e-4, BLUNT * 0.7**iteration)
        off = typical * _error(mixtures, errors)[:, None] / lengths
        values = mixtures @ units.T
        weights = values.square().add(blunt**2 + off.square()).rsqrt()
        upright = values * torch.sign(values @ lengths)[:, None]
        weights = torch.where(upright < -DEVIATIONS * off - blunt, BELOW_ZERO * weights, weights)
        forms = torch.stack([units.T @ (units * weight[:, None]) for weight in weights])
        mixtures = torch.linalg.eigh(forms).eigenvectors[:, :, 0]
    return mixtures


def _sparse(rows: Tensor, mixtures: Tensor, errors: Tensor) -> Tensor:
    """Those mixtures that look like a ReLU's output, the best known first, with their signs set right."""
    values = mixtures @ rows.T
    signs = torch.sign(values.sum(1, keepdim=True))
    values = values * signs / values.square().mean(1, keepdim=True).sqrt()
    error = _error(mixtures, errors)
    width = (DEVIATIONS * error).clamp_min(ZERO)
    zeros = (values.abs() < width[:, None]).double().mean(1)
    negative = (values < -width[:, None]).double().mean(1)
    good = (error < MOST_ERROR) & (zeros >= (BY_CHANCE * width).clamp_min(LEAST_ZEROS)) & (negative <= MOST_NEGATIVE)
    order = torch.argsort(zeros - width, descending=True)
    return (mixtures * signs)[order[good[order]]]


def _error(mixtures: Tensor, errors: Tensor) -> Tensor:
    """Of each mixture, as those of the basis are independent."""
    return (mixtures.square() @ errors.square()).sqrt()

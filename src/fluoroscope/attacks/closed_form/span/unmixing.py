"""From mixtures of sparse, non-negative maps to the maps themselves.

The basis that `feature_maps` gives spans the images' features in an arbitrary mixture. The features came out of a ReLU:
each has a zero in half of its places, and no mixture of two has. The sparsest vectors of the space are the features.
"""

import torch
from torch import Tensor

STARTS = 96
PATIENCE = 3
"""Rounds of starts without anything new before the rest is given up."""
ITERATIONS = 40
ZERO = 3e-3
"""Of the root mean square: what rounding leaves of a zero."""
LEAST_ZEROS = 0.05
BY_CHANCE = 2.0
"""Zeros over those that values without any zero have within the same width: a density of .8 or less at 0, doubled."""
NEGATIVE = 0.1
"""Of one map's norm, what may be below zero."""
MOST_NEGATIVE = 0.01
ALIKE = 1 - 1e-3


def unmix(basis: Tensor, rng: torch.Generator, error: float = 0.0) -> Tensor:
    """The sparse maps (found, channels, h, w), each of norm 1, in the span of an orthonormal basis of that shape.

    As many as there are in the basis, unless some are not found. `error` is that of a map's values, of their root mean
    square: what noise leaves of a zero.
    """
    count = len(basis)
    flat = basis.flatten(1).T
    if count == 1:
        single = basis * torch.sign(flat.sum())
        return single[rectified(single)]
    zero, alike = max(ZERO, 2 * error), min(ALIKE, 1 - 2 * error)
    norms = flat.norm(dim=1)
    rows = flat[norms > 1e-2 * norms.square().mean().sqrt()]  # a place where every image has its zero says nothing
    found = flat.new_zeros(0, count)
    idle = 0
    while idle < PATIENCE and len(found) < count:
        had = len(found)
        starts = torch.randn((STARTS, count), generator=rng, dtype=flat.dtype)
        if len(found):  # look where nothing was found yet
            known = torch.linalg.qr(found.T).Q
            starts = starts - starts @ known @ known.T
        for candidate in _sparse(rows, _sparsest(rows, starts), zero):
            if not len(found) or (found @ candidate).max() < alike:
                found = torch.cat([found, candidate[None]])
        idle = 0 if len(found) > had else idle + 1
    return (found[:count] @ basis.flatten(1)).view(-1, *basis.shape[1:])


def rectified(maps: Tensor, negative: float = NEGATIVE) -> Tensor:
    """Which of these maps may have come out of a ReLU: at most this part of their norm is below zero."""
    flat = maps.flatten(1)
    found: Tensor = flat.clamp_max(0).norm(dim=1) < negative * flat.norm(dim=1)
    return found


def _sparsest(rows: Tensor, mixtures: Tensor) -> Tensor:
    """Local minima of the L1 norm over the unit sphere, by reweighted least squares from each start."""
    units = rows / rows.norm(dim=1, keepdim=True)
    for iteration in range(ITERATIONS):
        blunt = max(1e-4, 0.3 * 0.7**iteration)
        weights = (mixtures @ units.T).square().add(blunt**2).rsqrt()
        forms = torch.stack([units.T @ (units * weight[:, None]) for weight in weights])
        mixtures = torch.linalg.eigh(forms).eigenvectors[:, :, 0]
    return mixtures


def _sparse(rows: Tensor, mixtures: Tensor, zero: float) -> Tensor:
    """Those mixtures that look like a ReLU's output, the sparsest first, with their signs set right."""
    values = mixtures @ rows.T
    signs = torch.sign(values.sum(1, keepdim=True))
    values = values * signs / values.square().mean(1, keepdim=True).sqrt()
    zeros = (values.abs() < zero).double().mean(1)
    negative = (values < -zero).double().mean(1)
    order = torch.argsort(zeros, descending=True)
    good = (zeros >= max(LEAST_ZEROS, BY_CHANCE * zero)) & (negative <= MOST_NEGATIVE)
    return (mixtures * signs)[order[good[order]]]

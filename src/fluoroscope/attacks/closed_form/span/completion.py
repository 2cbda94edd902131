"""A matrix of known rank, from entries that are known unequally well.

Adam's first step hides the large values of a gradient and shows the small ones. The gradient of a layer has a low rank,
so that the small ones determine it whole: weighted low-rank approximation (Srebro and Jaakkola 2003) by alternating
least squares, each side in closed form given the other.
"""

import torch
from torch import Tensor

from fluoroscope.attacks.common.gradients import Reading

FLOORS = (3e-2,) * 3 + (1e-2,) * 4 + (3e-3,) * 4 + (1e-3,) * 4
"""The least deviation that is believed, of the matrix's root mean square, sweep by sweep: from nearly even weights,
whose solution is near the singular vectors', to those that the entries deserve."""
RIDGE = 1e-6
SPARE = 1.2
"""Entries that say something, over the degrees of freedom of a matrix of that rank."""
MISFIT = 4.0
"""Mean square of the residuals over their deviations beyond which no matrix of that rank explains the entries."""


def complete(reading: Reading, rank: int) -> Tensor | None:
    """The matrix (rows, columns) of this rank behind a reading of that shape.

    None where too few entries are known for that many unknowns, or where none of that rank fits them.
    """
    scale = reading.value.square().mean().sqrt()
    rows, columns = reading.value.shape
    open_ended = reading.beyond != 0
    told = ~open_ended & (reading.deviation < reading.value.abs().clamp_min(1e-3 * scale))
    freedom = rank * (rows + columns - rank)
    if not 0 < rank < min(rows, columns) or not told.sum() > SPARE * freedom:
        return None
    value, deviation = reading.value / scale, reading.deviation / scale
    left, sizes, right = torch.linalg.svd(value, full_matrices=False)
    left, found = left[:, :rank], (left[:, :rank] * sizes[:rank]) @ right[:rank]
    for floor in FLOORS:
        weights = 1 / (deviation.square() + floor**2)
        weights = torch.where(open_ended, 1 / value.square().clamp_min(floor**2), weights)
        # An entry that is only bounded agrees with anything beyond its bound.
        wanted = torch.where(open_ended & ((found - value) * reading.beyond > 0), found, value)
        right = torch.linalg.qr(_solve(left, weights.T, wanted.T)).Q
        factor = _solve(right, weights, wanted)
        left, found = torch.linalg.qr(factor).Q, factor @ right.T
    off = ((found - value) / (deviation.square() + FLOORS[-1] ** 2).sqrt())[told]
    return found * scale if off.square().sum() < MISFIT * (len(off) - freedom) else None


def _solve(factor: Tensor, weights: Tensor, wanted: Tensor) -> Tensor:
    """Row by row of (n, m) `wanted`: its coefficients on the columns of `factor` (m, rank), weighted least squares."""
    rank = factor.shape[1]
    products = (factor[:, :, None] * factor[:, None, :]).flatten(1)
    normal = (weights @ products).view(-1, rank, rank)
    ridge = RIDGE * normal.diagonal(dim1=1, dim2=2).mean(1)
    normal = normal + ridge[:, None, None] * torch.eye(rank, dtype=factor.dtype)
    found: Tensor = torch.linalg.solve(normal, ((weights * wanted) @ factor)[:, :, None])
    return found[:, :, 0]

"""Of all sums that explain what was seen, the one with the fewest parts: focal underdetermined solution, all columns at
once (M-FOCUSS, Cotter et al. 2005)."""

import torch
from torch import Tensor

SWEEPS = 60
FIRST, LAST = 1.0, 1.8
"""The power of its length by which a part is weighed in the next sweep: 2 - p, where the sum of lengths to the p falls.

At first that sum is convex, in the end nearly the number of parts: so the sweeps are less easily caught.
"""
RIDGE = 1e-12


def fewest(design: Tensor, seen: Tensor, least: float) -> Tensor:
    """(parts,), bool: which rows of X are longer than `least` where design (rows, parts) @ X = seen (rows, columns)."""
    # Lengths are all that counts, and a rotation of the columns keeps them.
    turned = torch.linalg.qr(seen.T, mode="r").R.T
    weights = torch.ones(design.shape[1], dtype=design.dtype)
    length = weights
    for power in torch.linspace(FIRST, LAST, SWEEPS):
        half = design * weights
        inner = half @ design.T
        inner.diagonal().add_(RIDGE * inner.diagonal().mean())
        length = (half.T @ torch.linalg.solve(inner, turned)).norm(dim=1)
        weights = (length.square() + least**2) ** (float(power) / 2)
    kept: Tensor = length > least
    return kept

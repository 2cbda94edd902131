"""The span of a layer's patches, read from the change of its weights."""

import torch
from torch import Tensor

GAP = 3.0
"""How far a singular value of the span must stand above the first beyond it, which is rounding or noise."""
CLEAR = 10.0
"""How far all of them must, to be exact but for rounding."""


def row_space(change: Tensor, rank: int) -> Tensor | None:
    """An orthonormal basis (at most rank, columns), float64, of the row space of a convolution's update.

    Noise covers its weakest directions first. None where the update shows no direction: it has too few rows, or noise
    covers all.
    """
    matrix = change.flatten(1).double()
    if not 0 < rank < min(matrix.shape):
        return None
    # The eigenvalues of the small Gram matrix are the squares; float64 holds what float32 weights can show.
    squares, left = torch.linalg.eigh(matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix)
    rank = int((squares[-rank:] > GAP**2 * squares[-rank - 1].clamp_min(0)).sum())
    if not rank:
        return None
    inside = left[:, -rank:]
    basis: Tensor = torch.linalg.qr(matrix.T @ inside if len(matrix) <= matrix.shape[1] else inside).Q.T
    return basis


def is_clear(change: Tensor, rank: int) -> bool:
    """Whether the row space is whole, and exact but for rounding."""
    sizes = torch.linalg.svdvals(change.flatten(1).double())
    return 0 < rank < len(sizes) and bool(sizes[rank - 1] > CLEAR * sizes[rank])

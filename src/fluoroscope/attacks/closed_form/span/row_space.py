"""The span of a layer's patches, read from the change of its weights."""

import torch
from torch import Tensor

GAP = 10.0
"""How far the last singular value of the span must stand above the first beyond it, which is rounding or noise."""


def row_space(change: Tensor, rank: int) -> Tensor | None:
    """An orthonormal basis (rank, columns), float64, of the row space of a convolution's update.

    None where the update does not show a space of that rank: it has too few rows, or noise covers it.
    """
    matrix = change.flatten(1).double()
    if not 0 < rank < min(matrix.shape):
        return None
    # The eigenvalues of the small Gram matrix are the squares; float64 holds what float32 weights can show.
    squares, left = torch.linalg.eigh(matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix)
    if not squares[-rank] > GAP**2 * squares[-rank - 1].clamp_min(0):
        return None
    inside = left[:, -rank:]
    basis: Tensor = torch.linalg.qr(matrix.T @ inside if len(matrix) <= matrix.shape[1] else inside).Q.T
    return basis

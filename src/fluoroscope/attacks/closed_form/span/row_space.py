"""The span of a layer's patches, read from the change of its weights, as far as it stands above noise.

Noise on an update spreads over all singular values and ends at an edge (Marchenko and Pastur 1967). What stands above
the edge is the images'; how far its direction is off follows from how high it stands (Benaych-Georges and Nadakuditi
2012). So noise takes the weakest directions first, and nothing stops at once. An update that was rounded to bfloat16 or
made sparse bears errors that follow its values: they may stand far above any edge, and there a plain gap decides.
"""

import torch
from torch import Tensor

ABOVE = 2.0
"""Times the smaller side to the power -2/3: by how much of the edge noise strays beyond it (Tracy and Widom 1996)."""
STRANGE = 10.0
"""Times the edge: a singular value beyond the rank that stands so high is no noise."""
GAP = 3.0
"""How far a singular value must stand above the first beyond the rank where that one is no noise."""
CLEAR = 10.0
"""How far all of them must, to be exact but for rounding."""
PRECISION = 1e-7
"""What float32 weights can show, of the largest singular value."""
GRID = 2000


def row_space(change: Tensor, rank: int) -> Tensor | None:
    """An orthogonal basis (at most rank, columns), float64, of the row space of a convolution's update.

    A row's squared length is how well its direction is known: the squared cosine to the truth that is expected there,
    1 without noise. None where nothing of it is known: the update has too few rows, noise covers it, or its rank is
    larger.
    """
    matrix = change.flatten(1).double()
    rows, columns = matrix.shape
    if not 0 < rank < min(matrix.shape):
        return None
    sizes, right = _singular(matrix, rank)
    known, fewer = rank + 1, rank
    while fewer < known:  # what does not stand above the edge is noise too, and raises the edge for the rest
        known = fewer
        level = noise_level(sizes[known:], rows - known, columns - known)
        level = level.clamp_min(PRECISION * sizes[0] / (rows**0.5 + columns**0.5))
        edge = level * (rows**0.5 + columns**0.5)
        fewer = int((sizes[:known] > edge * (1 + ABOVE * min(rows, columns) ** (-2 / 3))).sum())
    if sizes[rank] > STRANGE * edge:
        known = int((sizes[:rank] > GAP * sizes[rank]).sum())
        return right[:known] if known else None
    if not known:
        return None
    cosines = squared_cosines(sizes[:known], level, rows, columns)
    basis: Tensor = right[:known] * cosines.sqrt()[:, None]
    return basis


def is_clear(change: Tensor, rank: int) -> bool:
    """Whether the row space is whole, and exact but for rounding."""
    sizes = torch.linalg.svdvals(change.flatten(1).double())
    return 0 < rank < len(sizes) and bool(sizes[rank - 1] > CLEAR * sizes[rank])


def noise_level(sizes: Tensor, rows: int, columns: int) -> Tensor:
    """The deviation of each entry of a matrix of noise with these singular values.

    By their median, which a few that are no noise do not move (Gavish and Donoho 2014).
    """
    short, long = sorted((rows, columns))
    level: Tensor = sizes.median() / (long * median_of_squares(short / long)) ** 0.5
    return level


def median_of_squares(shape: float) -> float:
    """The median of Marchenko and Pastur's law: of the squared singular values of noise of unit level, over `long`.

    The density at x is sqrt((b - x)(x - a)) / (2 pi shape x), with a, b = (1 -+ sqrt(shape))^2.
    """
    low, high = (1 - shape**0.5) ** 2, (1 + shape**0.5) ** 2
    # x = middle - half cos t, so that the density has no corner at either end.
    t = (torch.arange(GRID, dtype=torch.float64) + 0.5) * torch.pi / GRID
    x = (low + high) / 2 - (high - low) / 2 * t.cos()
    mass = (t.sin().square() / x).cumsum(0)
    return float(x[torch.searchsorted(mass, mass[-1] / 2)])


def squared_cosines(sizes: Tensor, level: Tensor, rows: int, columns: int) -> Tensor:
    """Between right singular vectors of signal with noise, seen at these sizes above the edge, and those without.

    With y the size in units of level sqrt(columns) and c = rows / columns, the signal's own size t solves
    y^2 = (1 + t^2)(c + t^2) / t^2, and the squared cosine is 1 - (c + t^2) / (t^2 (t^2 + 1)).
    """
    c = rows / columns
    y = (sizes / (level * columns**0.5)).square()
    inside = ((y - 1 - c).square() - 4 * c).clamp_min(0)
    t = (y - 1 - c + inside.sqrt()) / 2
    found: Tensor = 1 - (c + t) / (t * (t + 1))
    return found.clamp(0, 1)


def _singular(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Singular values, the largest first, and the first `rank` right singular vectors as rows.

    The eigenvalues of the small Gram matrix are the squares; float64 holds what float32 weights can show.
    """
    wide = len(matrix) <= matrix.shape[1]
    squares, vectors = torch.linalg.eigh(matrix @ matrix.T if wide else matrix.T @ matrix)
    sizes, vectors = squares.clamp_min(0).sqrt().flip(0), vectors.flip(1)[:, :rank]
    return sizes, (torch.linalg.qr(matrix.T @ vectors).Q if wide else vectors).T

"""Independent components by FastICA (Hyvärinen 1999), symmetric."""

import torch
from torch import Tensor

STEEP = 4.0
"""Of the contrast's derivative tanh(STEEP y): nearly that of |y|, which suits values that are mostly near zero."""
ITERATIONS = 300
TOLERANCE = 1e-8


def unmixing_of(samples: Tensor, rng: torch.Generator) -> Tensor:
    """(count, count): the matrix whose product with `samples` (count, values) has rows as independent as can be.

    Rows come out with unit variance, in no order, and with either sign.

    Example:
        >>> import torch
        >>> rng = torch.Generator().manual_seed(0)
        >>> sources = torch.randn(2, 2000, generator=rng, dtype=torch.float64) ** 3
        >>> mixed = torch.tensor([[1.0, 0.5], [0.3, 1.0]], dtype=torch.float64) @ sources
        >>> found = unmixing_of(mixed, rng) @ mixed
        >>> bool((torch.corrcoef(torch.cat([sources, found]))[:2, 2:].abs().max(1).values > 0.99).all())
        True
    """
    count, values = samples.shape
    left, sizes, right = torch.linalg.svd(samples - samples.mean(1, keepdim=True), full_matrices=False)
    whitening = (left / sizes.clamp_min(torch.finfo(sizes.dtype).tiny)).T * values**0.5
    white = right * values**0.5
    turn = torch.linalg.qr(torch.randn(count, count, generator=rng, dtype=samples.dtype)).Q
    for _ in range(ITERATIONS):
        slope = torch.tanh(STEEP * (turn @ white))
        fresh = slope @ white.T / values - STEEP * (1 - slope.square()).mean(1, keepdim=True) * turn
        u, _, v = torch.linalg.svd(fresh)
        fresh = u @ v  # the nearest rotation: all components at once, none before the others
        moved = (1 - (fresh * turn).sum(1).abs()).max()
        turn = fresh
        if moved < TOLERANCE:
            break
    found: Tensor = turn @ whitening
    return found

"""Which bins hold one image together: found in the subspace that all bins span, without looking at any picture.

The bins' sums are Y = B X: a row of X per image, its pixels times its coefficient, and a column of B per image with a 1
in each of its three bins. While images are fewer than bins and than pixels, the columns of Y span what the columns of B
span, and few vectors with one 1 per feature lie in that span: the images' own.
"""

from typing import NamedTuple

import torch
from torch import Tensor

FLOOR = 1e-13
"""Of the largest eigenvalue: below it, float64 knows nothing of a Gram matrix."""
SPARE = 8
"""Directions beyond one per image that something else than an image may take, such as a bin that was cut."""
MOST = 12
"""Candidates per image that are kept, the likeliest of them: beyond, the span excludes too little."""


class Triples(NamedTuple):
    """Sets of one bin per feature that may be an image's."""

    members: Tensor
    """(n, 3): rows of the table of bins."""
    misfits: Tensor
    """(n,): how much of the three lies outside the span of all bins, noise weighed in; of a random three about 1."""
    noise: float
    """Standard deviation of an entry of the bins."""


def find_triples(rows: Tensor, width: int, images: int, below: float) -> Triples | None:
    """All triples with a misfit `below`, from the bins' sums (3 width, columns); None where the span excludes none.

    The misfit of a triple t is s t' (Y Y' + s)^-1 t: for an image's own, s over the square of what no other image
    explains of it; s is the noise.
    """
    gram = rows @ rows.T
    sizes = gram.diagonal().clamp_min(0)
    full = (sizes > FLOOR * sizes.max()).nonzero()[:, 0] if len(sizes) else sizes.nonzero()[:, 0]
    spare = min(SPARE, (len(full) - images) // 2)
    if images < 1 or spare < 1 or images + spare >= rows.shape[1]:
        return None
    gram = gram[full[:, None], full]
    values = torch.linalg.eigvalsh(gram)
    noise = max(float(values[-1 - images - spare]), FLOOR * float(values[-1]))
    inverse = noise * torch.linalg.inv(gram + noise * torch.eye(len(full), dtype=gram.dtype))
    split = [((full >= f * width) & (full < (f + 1) * width)).nonzero()[:, 0] for f in range(3)]
    if min(map(len, split)) == 0:
        return None
    members, misfits = _below(inverse, split[0], split[1], split[2], below)
    order = misfits.argsort()[: MOST * images]
    return Triples(full[members[order]], misfits[order], (noise / rows.shape[1]) ** 0.5)


def _below(inverse: Tensor, first: Tensor, second: Tensor, third: Tensor, below: float) -> tuple[Tensor, Tensor]:
    """Every triple whose entries of the matrix sum to less, and the sums."""
    own = inverse.diagonal()
    pairs = own[second, None] + own[third] + 2 * inverse[second[:, None], third]
    members, misfits = [], []
    for i in first.tolist():
        total = pairs + (own[i] + 2 * inverse[i, second])[:, None] + 2 * inverse[i, third]
        j, k = (total < below).nonzero(as_tuple=True)
        members.append(torch.stack([torch.full_like(j, i), second[j], third[k]], 1))
        misfits.append(total[j, k])
    return torch.cat(members), torch.cat(misfits)

"""Images from the bins that they fell into, by least squares over all of them at once."""

import torch
from torch import Tensor

from fluoroscope.attacks.imprint.bin_sums import BinSums
from fluoroscope.attacks.imprint.bins import Bins
from fluoroscope.attacks.imprint.completion import completed, normal_equations


def solve_images(
    members: Tensor, values: Tensor, closed: Tensor, sums: BinSums, bins: Bins, shape: torch.Size
) -> tuple[Tensor, Tensor]:
    """(images, pixels), float64: of images in the bins `members` (images, features) with the coefficients `values`.

    `closed` says which of these bins hold no image but these. Where bins do not show the pixels of their own feature,
    those are left to the bins of the others. The second result, (images,), is how alike the images should be to the
    true ones for all that had to be guessed: 1 where nothing was.
    """
    closed = closed | ~closed.any(1, keepdim=True)  # an image without a closed bin is read from all of them
    if sums.readable:
        return _least_squares(members, values, closed, sums.pixels), torch.ones(len(members), dtype=torch.float64)
    rest = ~torch.stack([feature.support for feature in bins.features]).any(0)
    solved = torch.zeros(len(members), sums.pixels.shape[1], dtype=torch.float64)
    solved[:, rest] = _least_squares(members, values, closed, sums.pixels[:, rest])
    return completed(solved, members, values, closed, sums, bins, shape)


def unexplained(members: Tensor, values: Tensor, solved: Tensor, sums: BinSums, probes: Tensor) -> Tensor:
    """(images,): how much of an image's bins, by its own size, the images in them leave over: of the worst of them."""
    explained = torch.zeros(len(sums.pixels), len(probes), dtype=torch.float64)
    for held in members.T:
        explained.index_add_(0, held, values[:, None] * solved[:, probes])
    off = (sums.pixels[:, probes] - explained).norm(dim=1)
    own = (values[:, None] * solved[:, probes]).norm(dim=1)
    share: Tensor = (off[members] / own[:, None]).amax(1)
    return share


def _least_squares(members: Tensor, values: Tensor, use: Tensor, pixels: Tensor) -> Tensor:
    """x minimising the squared misfit of sum_i c_i x_i to every used bin."""
    normal, right = normal_equations(members, values, use, pixels)
    normal += 1e-15 * float(normal.diagonal().mean()) * torch.eye(len(members), dtype=torch.float64)
    found: Tensor = torch.linalg.solve(normal, right)
    return found

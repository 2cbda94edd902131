"""Images from the bins that they fell into, by least squares over all of them at once."""

import torch
from torch import Tensor

from fluoroscope.attacks.imprint.bin_sums import BinSums
from fluoroscope.attacks.imprint.bins import Bins


def solve_images(
    members: Tensor, values: Tensor, closed: Tensor, sums: BinSums, bins: Bins, shape: torch.Size
) -> Tensor:
    """(images, pixels), float64: of images in the bins `members` (images, features) with the coefficients `values`.

    `closed` says which of these bins hold no image but these. Where bins do not show the pixels of their own feature,
    those are left to the bins of the others.
    """
    closed = closed | ~closed.any(1, keepdim=True)  # an image without a closed bin is read from all of them
    if sums.readable:
        return _least_squares(members, values, closed, sums.pixels)
    supports = torch.stack([feature.support for feature in bins.features])
    rest = ~supports.any(0)
    solved = torch.zeros(len(members), sums.pixels.shape[1], dtype=torch.float64)
    solved[:, rest] = _least_squares(members, values, closed, sums.pixels[:, rest])
    likely = _from_neighbours(solved.view(-1, *shape), rest.view(shape)).flatten(1)
    for feature, support in enumerate(supports):
        shown = closed.clone()
        shown[:, feature] = False
        solved[:, support] = _least_squares(members, values, shown, sums.pixels[:, support], likely[:, support])
    return solved


def unexplained(members: Tensor, values: Tensor, solved: Tensor, sums: BinSums, probes: Tensor) -> Tensor:
    """(images,): how much of an image's bins, by its own size, the images in them leave over: of the worst of them."""
    explained = torch.zeros(len(sums.pixels), len(probes), dtype=torch.float64)
    for held in members.T:
        explained.index_add_(0, held, values[:, None] * solved[:, probes])
    off = (sums.pixels[:, probes] - explained).norm(dim=1)
    own = (values[:, None] * solved[:, probes]).norm(dim=1)
    share: Tensor = (off[members] / own[:, None]).amax(1)
    return share


def _from_neighbours(images: Tensor, known: Tensor) -> Tensor:
    """Each pixel as the mean of the known pixels around it."""
    count = torch.nn.functional.avg_pool2d(known.double()[None], 3, 1, 1)
    around: Tensor = torch.nn.functional.avg_pool2d(images * known, 3, 1, 1) / count.clamp_min(1e-9)
    return around


def _least_squares(
    members: Tensor, values: Tensor, use: Tensor, pixels: Tensor, likely: Tensor | None = None
) -> Tensor:
    """x minimising the squared misfit of sum_i c_i x_i to every used bin; what they leave open is as `likely` says.

    Two features alone leave images open that share their bins in a circle.
    """
    images = len(members)
    design = torch.zeros(len(pixels), images, dtype=torch.float64)
    used = torch.zeros(len(pixels), dtype=torch.float64)
    used[members[use]] = 1
    right = torch.zeros(images, pixels.shape[1], dtype=torch.float64)
    for held in members.T:  # design.T @ pixels, of which few entries are not 0
        weight = values * used[held]
        design[held, torch.arange(images)] = weight
        right += weight[:, None] * pixels[held]
    normal = design.T @ design
    ridge = 1e-9 * float(values.square().mean()) if likely is not None else 0.0
    normal += (ridge + 1e-15 * float(normal.diagonal().mean())) * torch.eye(images, dtype=torch.float64)
    found: Tensor = torch.linalg.solve(normal, right if likely is None else right + ridge * likely)
    return found

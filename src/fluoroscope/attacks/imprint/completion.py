"""Pixels that a feature's own bins do not show: what the other features' bins say, and the neighbours, and [0, 1].

Two features alone leave images open that share their bins in a circle. What is guessed there is tried on pixels that
are known, in the same circles: an image of which they come out right is sure.
"""

import torch
from torch import Tensor

from fluoroscope.attacks.imprint.bin_sums import BinSums
from fluoroscope.attacks.imprint.bins import Bins
from fluoroscope.scores.similarity import ssim

OPEN = 1e-9
"""Of the mean squared coefficient: a direction that the bins show less than this is open."""
BESIDE = ((1, 1), (1, -1))
"""From a feature's pixels to those on which its guesses are tried: rows and columns."""
TWICE = 2.0
"""As far again as on the trials a guess may be off."""
SWEEPS = 200
WORK = 4e9
"""Of all sweeps, in multiplications."""


def completed(
    solved: Tensor, members: Tensor, values: Tensor, closed: Tensor, sums: BinSums, bins: Bins, shape: torch.Size
) -> tuple[Tensor, Tensor]:
    """`solved` with the pixels of every feature; and how alike (SSIM) known pixels, guessed the same way, are to them.

    As many known pixels are guessed, beside the feature's own, from the same bins.
    """
    supports = torch.stack([feature.support for feature in bins.features])
    rest = ~supports.any(0)
    likely = _from_neighbours(solved.view(-1, *shape), rest.view(shape)).flatten(1)
    trials = [supports.view(-1, *shape).roll(shift, (2, 3)).flatten(1) & rest for shift in BESIDE]
    guessed = [_from_neighbours(solved.view(-1, *shape), (rest & ~t.any(0)).view(shape)).flatten(1) for t in trials]
    tested = [solved.clone() for _ in trials]
    for feature, support in enumerate(supports):
        shown = closed.clone()
        shown[:, feature] = False
        parts = [support, *(trial[feature] for trial in trials)]
        pixels = torch.cat([sums.pixels[:, part].double() for part in parts], 1)
        guesses = [guess[:, part] for guess, part in zip([likely, *guessed], parts, strict=True)]
        normal, right = normal_equations(members, values, shown, pixels)
        found = _nearest(normal, right, torch.cat(guesses, 1))
        start = 0
        for filled, part in zip([solved, *tested], parts, strict=True):
            filled[:, part] = found[:, start : start + int(part.sum())]
            start += int(part.sum())
    images = solved.view(-1, *shape)
    inside = images.clamp(0, 1)
    alike = ssim(inside, images)  # what lies outside was spoiled by an image in a wrong bin
    for trial in tested:
        trial[:, ~rest] = solved[:, ~rest]
        alike = alike.minimum(ssim(inside, trial.view(-1, *shape).clamp(0, 1)))
    return solved, 1 - TWICE * (1 - alike)


def normal_equations(members: Tensor, values: Tensor, use: Tensor, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Of sum_i c_i x_i = bin for every used bin (images, images) and (images, pixels)."""
    images = len(members)
    design = torch.zeros(len(pixels), images, dtype=torch.float64)
    used = torch.zeros(len(pixels), dtype=torch.float64)
    used[members[use]] = 1
    right = torch.zeros(images, pixels.shape[1], dtype=torch.float64)
    for held in members.T:  # design.T @ pixels, of which few entries are not 0
        weight = values * used[held]
        design[held, torch.arange(images)] = weight
        right += weight[:, None] * pixels[held]
    return design.T @ design, right


def _nearest(normal: Tensor, right: Tensor, likely: Tensor) -> Tensor:
    """Of the solutions of normal @ x = right one in [0, 1], and near what is likely: projections onto both by turns."""
    sizes, vectors = torch.linalg.eigh(normal)
    shown = sizes > OPEN * float(normal.diagonal().mean())
    open_ = vectors[:, ~shown]
    found: Tensor = vectors[:, shown] @ ((vectors[:, shown].T @ right) / sizes[shown, None])
    found = found + open_ @ (open_.T @ likely)
    work = 2 * open_.numel() * likely.shape[1]
    for _ in range(min(SWEEPS, int(WORK / work)) if work else 0):
        beyond = found.clamp(0, 1) - found
        if float(beyond.abs().max()) < 1e-3:
            break
        found = found + open_ @ (open_.T @ beyond)
    return found


def _from_neighbours(images: Tensor, known: Tensor) -> Tensor:
    """Each pixel as the mean of the known pixels around it."""
    count = torch.nn.functional.avg_pool2d(known.double()[None], 3, 1, 1)
    around: Tensor = torch.nn.functional.avg_pool2d(images * known, 3, 1, 1) / count.clamp_min(1e-9)
    return around

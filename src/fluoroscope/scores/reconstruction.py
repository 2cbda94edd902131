"""How near reconstructions come to the originals, with the public prior beside them. Scores only: attacks are over."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.scores.matching import match
from fluoroscope.scores.rdlv import rdlv
from fluoroscope.scores.similarity import psnr, ssim, ssim_matrix


@dataclass(frozen=True)
class ImageScore:
    """One reconstruction against the original that it was matched with (Hungarian, by SSIM)."""

    reconstruction: int
    original: int
    ssim: float
    psnr: float
    ssim_prior: float | None
    """Of the prior with the same original: what an attacker has without an attack."""
    psnr_prior: float | None
    rdlv: float | None
    """P1 eq. 6, against the original that is nearest to it. None without a prior, or where it is undefined."""


def score(images: Tensor, originals: Tensor, prior: Tensor | None) -> list[ImageScore]:
    """A score for each reconstruction (n, channels, height, width), in the order of the originals."""
    images = images.to(originals)
    pairs = match(ssim_matrix(images, originals), higher_is_better=True)
    order = pairs.originals.argsort()
    guessed, true = pairs.reconstructions[order], pairs.originals[order]
    columns = [ssim(originals[true], images[guessed]), psnr(originals[true], images[guessed])]
    if prior is not None:
        same = prior.expand(len(true), -1, -1, -1)
        leaked = rdlv(images[guessed], originals, prior).values
        columns += [ssim(originals[true], same), psnr(originals[true], same), leaked]
    table = torch.stack([column.double() for column in columns], 1).tolist()
    found = []
    for i, j, row in zip(guessed.tolist(), true.tolist(), table, strict=True):
        padded = [*row, *[None] * (5 - len(row))]
        padded[4] = None if padded[4] is None or math.isnan(padded[4]) else padded[4]
        found.append(ImageScore(i, j, *padded))
    return found

"""Relative data leakage value: how much nearer a reconstruction comes to a private image than a public prior does.

P1 eq. 6: RDLV = (SSIM(T, I) - SSIM(T, P)) / SSIM(T, P), for the reconstruction I, the prior P and the training image T
that is nearest to I. 0 for the prior itself, 1 / SSIM(T, P) - 1 for the original; 0 or less: no better than the prior.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.errors import BadInput
from fluoroscope.scores.intervals import Interval, bootstrap_mean
from fluoroscope.scores.similarity import ssim, ssim_matrix

LEAST_PRIOR_SIMILARITY = 0.01
"""Below it the ratio has no meaning: it grows without bound towards 0, and beyond 0 it calls a better image worse."""


@dataclass(frozen=True, eq=False)
class Rdlv:
    """RDLV of each reconstruction with what it was made from. All (n,)."""

    values: Tensor
    """NaN where it is undefined: the prior is too unlike T, or the reconstruction itself holds NaN."""
    nearest: Tensor
    """T: the client's training image with the highest SSIM, int64."""
    similarity: Tensor
    """SSIM(T, I)."""
    prior_similarity: Tensor
    """SSIM(T, P)."""


def rdlv(reconstructions: Tensor, training: Tensor, prior: Tensor) -> Rdlv:
    """Score reconstructions (n, channels, height, width) against all `training` images of one client.

    T is sought among all images of the client, so two reconstructions may share one. The value is NaN where
    SSIM(T, P) is below LEAST_PRIOR_SIMILARITY; both similarities are kept, so that a report can show them instead.
    """
    if prior.ndim != 3:
        raise BadInput(f"the prior must be one image (channels, height, width), not shape {tuple(prior.shape)}.")
    if not len(training):
        raise BadInput("RDLV compares with a client's training images, and there are none; give at least one.")
    nearest = ssim_matrix(reconstructions, training).argmax(1)
    originals = training[nearest]
    # Again by pairs, both the same way: the prior's own RDLV is then 0 and not the difference of two methods.
    similarity = ssim(originals, reconstructions)
    prior_similarity = ssim(originals, prior.expand(len(originals), -1, -1, -1))
    ratio = (similarity - prior_similarity) / prior_similarity
    values = ratio.where(prior_similarity >= LEAST_PRIOR_SIMILARITY, math.nan)
    return Rdlv(values, nearest, similarity, prior_similarity)


def mean_rdlv(values: Tensor, rng: torch.Generator) -> Interval:
    """The mean over reconstructions and rounds with its 95 % bootstrap interval (1000 resamples).

    Undefined values are left out; the interval's `n` counts the others, so that the report can say how many were.
    """
    return bootstrap_mean(values[~values.isnan()], rng)

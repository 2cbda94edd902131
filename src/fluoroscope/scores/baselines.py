"""What an attack must beat. P4: medical images are alike, so even a wrong one scores well."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.scores.intervals import Interval, bootstrap_mean
from fluoroscope.scores.similarity import mse, ssim


@dataclass(frozen=True)
class RandomImage:
    """What "an algorithm that simply returns a random but different image from the dataset" scores (P4, section IV)."""

    mse: Interval
    ssim: Interval


def random_image(images: Tensor, rng: torch.Generator, pairs: int = 1000) -> RandomImage:
    """The mean scores of random pairs of two different images (n, channels, height, width) of a data set.

    Pairs are drawn with replacement, so the intervals are about the mean over all pairs of this data set.
    """
    n = len(images)
    if n < 2:
        raise BadInput(f"a random other image needs at least 2 images, not {n}; give the whole data set.")
    if pairs < 1:
        raise Misconfigured(f"pairs must be at least 1, not {pairs}.")
    original = torch.randint(n, (pairs,), generator=rng)
    other = (original + torch.randint(1, n, (pairs,), generator=rng)) % n
    a, b = images[original], images[other]
    return RandomImage(bootstrap_mean(mse(a, b), rng), bootstrap_mean(ssim(a, b), rng))

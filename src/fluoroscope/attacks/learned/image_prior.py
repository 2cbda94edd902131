"""What images of this kind look like: a Gaussian, learned from public ones, in coordinates in which it is plain."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.fft
import torch
import torch.nn.functional as F
from torch import Tensor

SMOOTHED = 5
"""Neighbouring frequencies over which the spectrum is averaged."""


@dataclass(frozen=True, eq=False)
class ImagePrior:
    """N(mean, share S + (1 - share) D): S the covariance of the public images themselves, D that of a random texture
    with their spectrum, without which no image could leave the span of the public ones.

    Coordinates are (directions + pixels) standard normal numbers per image. They weigh coarse and usual patterns most,
    so a descent in them goes from coarse to fine by itself.
    """

    mean: Tensor
    """(channels, height, width)."""
    directions: Tensor
    """(public images, channels * height * width): their deviations, scaled."""
    texture: Tensor
    """(channels, height, width): the deviation of each frequency, scaled."""

    @classmethod
    def of(cls, images: Tensor, share: float) -> "ImagePrior":
        """From public images (n, channels, height, width)."""
        mean = images.mean(0)
        apart = images - mean
        power = _cosines(apart).square().mean(0).clamp_min(1e-12).log()
        smooth = F.avg_pool2d(power[None], SMOOTHED, 1, SMOOTHED // 2, count_include_pad=False)[0]
        texture = (smooth / 2).exp() * math.sqrt(1 - share)
        return cls(mean, apart.flatten(1) * math.sqrt(share / len(images)), texture)

    @property
    def coordinates(self) -> int:
        """Per image."""
        return len(self.directions) + self.mean.numel()

    def images(self, coordinates: Tensor) -> Tensor:
        """(n, channels, height, width) at (n, coordinates): linear, so that autograd follows."""
        usual, rest = torch.split(coordinates, [len(self.directions), self.mean.numel()], 1)
        shape = (len(coordinates), *self.mean.shape)
        texture = _from_cosines(self.texture * rest.view(shape))
        return self.mean + (usual @ self.directions).view(shape) + texture


def _cosines(images: Tensor) -> Tensor:
    """The orthonormal discrete cosine transform of each channel."""
    rows, columns = (_basis(side).to(images) for side in images.shape[-2:])
    return rows @ images @ columns.T


def _from_cosines(frequencies: Tensor) -> Tensor:
    rows, columns = (_basis(side).to(frequencies) for side in frequencies.shape[-2:])
    return rows.T @ frequencies @ columns


def _basis(side: int) -> Tensor:
    return torch.from_numpy(scipy.fft.dct(np.eye(side), axis=0, norm="ortho"))

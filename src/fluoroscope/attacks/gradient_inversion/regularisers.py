"""What natural images have in common, as penalties. Pure, for one problem's images (n, channels, height, width)."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Regulariser(Protocol):
    """A penalty on images alone: small for what looks like an image."""

    def __call__(self, images: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class TotalVariation:
    """Mean absolute difference of neighbouring pixels, down and across, summed over the images."""

    weight: float

    def __call__(self, images: Tensor) -> Tensor:
        down = (images[..., 1:, :] - images[..., :-1, :]).abs().mean()
        across = (images[..., :, 1:] - images[..., :, :-1]).abs().mean()
        return self.weight * len(images) * (down + across)


@dataclass(frozen=True)
class SquaredNorm:
    """Mean square of the pixels, summed over the images (GradInversion's L2)."""

    weight: float

    def __call__(self, images: Tensor) -> Tensor:
        return self.weight * len(images) * images.square().mean()


@dataclass(frozen=True)
class GroupConsistency:
    """GradInversion: squared distance from the mean of several seeds' images, which is given and does not move."""

    weight: float

    def __call__(self, images: Tensor, consensus: Tensor) -> Tensor:
        return self.weight * len(images) * (images - consensus).square().mean()

"""LPIPS: how unlike two images look to a network that learned from people's judgement (Zhang et al. 2018, version 0.1).

0 for identical images; the lower, the leakier. Images are floats (n, 1 or 3 channels, height, width) on the scale
[0, 1]; values outside are taken as they come, and the distance of an image that holds NaN is NaN.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fluoroscope.errors import BadInput
from fluoroscope.scores.lpips_weights import Weights, read

SHIFT, SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
"""ImageNet's mean and spread by channel, for images from -1 to 1, as the authors' code has them."""
_PAIRS_AT_ONCE = 16


@dataclass(frozen=True)
class Stage:
    """Convolutions with ReLU, the last of them a compared layer; a pooling of stride 2 may come first."""

    convolutions: int = 1
    pool: int | None = None
    stride: int = 1
    padding: int = 1


@dataclass(frozen=True)
class Trunk:
    """A network up to the last of its layers that are compared."""

    name: str
    stages: tuple[Stage, ...]
    smallest: int
    """Pixels of the shorter side that leave one for the last stage."""


ALEXNET = Trunk("alexnet", (Stage(stride=4, padding=2), Stage(pool=3, padding=2), Stage(pool=3), Stage(), Stage()), 31)
"""The authors' default: nearest to people's judgement, and the fastest."""
VGG16 = Trunk("vgg16", (Stage(2), Stage(2, pool=2), Stage(3, pool=2), Stage(3, pool=2), Stage(3, pool=2)), 16)


@torch.no_grad()
def lpips(a: Tensor, b: Tensor, trunk: Trunk = ALEXNET) -> Tensor:
    """The distance of each image of `a` from its partner in `b`: (n,), float32.

    Images below `trunk.smallest`, such as MedMNIST's 28 pixels for AlexNet, are doubled until they fit. They can be
    compared among themselves: LPIPS depends on the size, there and everywhere.
    """
    for images in (a, b):
        if images.ndim != 4 or images.shape[1] not in (1, 3) or not images.is_floating_point():
            raise BadInput(
                f"LPIPS takes floats of shape (n, 1 or 3 channels, height, width), not {images.dtype} of shape "
                f"{tuple(images.shape)}; scale integers to [0, 1], and add a first axis to a single image."
            )
    if a.shape != b.shape:
        raise BadInput(
            f"images of shape {tuple(a.shape)} and {tuple(b.shape)} are not partners; "
            "bring them to one number, one size and one number of channels."
        )
    weights = read(trunk.name).to(a.device)
    few = zip(torch.split(a.float(), _PAIRS_AT_ONCE), torch.split(b.float(), _PAIRS_AT_ONCE), strict=True)
    return torch.cat([_of_few(x, y, trunk, weights) for x, y in few])


def _of_few(a: Tensor, b: Tensor, trunk: Trunk, weights: Weights) -> Tensor:
    total = a.new_zeros(len(a))
    layers = [_layers(_prepared(images, trunk.smallest), trunk, weights) for images in (a, b)]
    for p, q, linear in zip(*layers, weights.linear, strict=True):
        total += layer_distance(p, q, linear)
    return total


def _prepared(images: Tensor, smallest: int) -> Tensor:
    """Three channels, large enough, on the scale that the networks were trained with."""
    while min(images.shape[-2:]) < smallest:
        images = F.interpolate(images, scale_factor=2, mode="bilinear")
    shift, scale = (torch.tensor(channels, device=images.device)[:, None, None] for channels in (SHIFT, SCALE))
    return (2 * images - 1 - shift) / scale


def _layers(x: Tensor, trunk: Trunk, weights: Weights) -> list[Tensor]:
    convolutions = zip(weights.kernels, weights.biases, strict=True)
    compared = []
    for stage in trunk.stages:
        if stage.pool is not None:
            x = F.max_pool2d(x, stage.pool, stride=2)
        for _ in range(stage.convolutions):
            kernel, bias = next(convolutions)
            x = F.relu(F.conv2d(x, kernel, bias, stage.stride, stage.padding))
        compared.append(x)
    return compared


def layer_distance(p: Tensor, q: Tensor, linear: Tensor) -> Tensor:
    """Zhang eq. 1 for one layer (n, channels, height, width): (n,).

    Features are scaled to length 1 at every place; `linear` (channels,) weighs their squared differences.
    """
    # The authors' 1e-10: where no feature fires, 0 and not 0/0.
    p, q = (layer / (layer.square().sum(1, keepdim=True).sqrt() + 1e-10) for layer in (p, q))
    return ((p - q).square() * linear[:, None, None]).sum(1).mean((1, 2))

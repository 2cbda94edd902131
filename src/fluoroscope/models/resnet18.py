"""P1's ResNet-18, and the same with GroupNorm for DP-SGD.

Parameter names are torchvision's, so that `Architecture.weights` can be the path of a torchvision state dict (P1
starts from ImageNet's). Without a path the start is random, as torchvision's is.

The network does not normalise its input: images in [0, 1] go in as they are. Torchvision's weights were trained on
(x - mean) / std, but the BatchNorm right behind conv1 takes each channel's shift and a common scale out again in
training mode, which is P1's. Its running statistics need some steps to follow: do not evaluate before training.
"""

from functools import partial

from torch import Tensor, nn

from fluoroscope.models.architecture import MODELS, Architecture
from fluoroscope.models.limits import check_limits
from fluoroscope.models.residual import Layer, stage
from fluoroscope.models.weights import started


class ResNet18(nn.Module):
    """He et al. 2016, with the ImageNet stem: 7x7 stride 2 and a max pool."""

    def __init__(self, channels: int, classes: int, norm: Layer) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = norm(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = stage(64, 64, 1, norm, nn.ReLU)
        self.layer2 = stage(64, 128, 2, norm, nn.ReLU)
        self.layer3 = stage(128, 256, 2, norm, nn.ReLU)
        self.layer4 = stage(256, 512, 2, norm, nn.ReLU)
        self.fc = nn.Linear(512, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):  # as torchvision; its other layers keep torch's own initialisation
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, images: Tensor) -> Tensor:
        """The 512 pooled features: P1 II-D's embedding."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        pooled: Tensor = x.mean(dim=(2, 3))
        return pooled

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.features(images))
        return logits


@MODELS.register("resnet18")
def resnet18(architecture: Architecture) -> nn.Module:
    """P1's network, with BatchNorm. A batch of one image needs a size above 32: below, layer 4 has a single pixel."""
    check_limits(architecture)
    module = ResNet18(architecture.channels, architecture.classes, nn.BatchNorm2d)
    return started(module, architecture.weights, stem="conv1.weight", head="fc")


@MODELS.register("resnet18-gn")
def resnet18_gn(architecture: Architecture) -> nn.Module:
    """ResNet-18 with GroupNorm of 32 groups (Wu & He 2018): no statistic mixes patients, as DP-SGD demands.

    A torchvision file starts it too: kernels, scales and shifts are taken; BatchNorm's statistics have no place here.
    """
    check_limits(architecture)
    module = ResNet18(architecture.channels, architecture.classes, partial(nn.GroupNorm, 32))
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    return started(module, architecture.weights, stem="conv1.weight", head="fc", leave_out=statistics)

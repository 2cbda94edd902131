"""P4's sigmoid ResNet-18: stride 1 everywhere, so no pixel is skipped and second derivatives exist throughout.

After DLG's code, as P4's authors changed it in the project that became the paper
(github.com/NielsFuglsang/02460-advanced-machine-learning, src/models.py); its size is the one P4 prints.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from fluoroscope.models.architecture import MODELS, Architecture
from fluoroscope.models.limits import check_limits
from fluoroscope.models.residual import stage
from fluoroscope.models.weights import started


class SigmoidResNet18(nn.Module):
    """64-128-256-512 channels at full resolution, average pool 4, one dense layer on what is left."""

    def __init__(self, channels: int, classes: int, height: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, kernel_size=3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.sigmoid = nn.Sigmoid()
        self.layer1 = stage(64, 64, 1, nn.BatchNorm2d, nn.Sigmoid)
        self.layer2 = stage(64, 128, 1, nn.BatchNorm2d, nn.Sigmoid)
        self.layer3 = stage(128, 256, 1, nn.BatchNorm2d, nn.Sigmoid)
        self.layer4 = stage(256, 512, 1, nn.BatchNorm2d, nn.Sigmoid)
        self.fc = nn.Linear(512 * (height // 4) * (width // 4), classes)
        # That code draws every weight and bias from U(-.5, .5), BatchNorm's scale and shift included, and passes over
        # the biases that the convolutions lack (at which DLG's own function stops with an error).
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.5, 0.5)

    def forward(self, images: Tensor) -> Tensor:
        x = self.sigmoid(self.bn1(self.conv1(images)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(F.avg_pool2d(x, 4).flatten(1))
        return logits


@MODELS.register("resnet18-sigmoid")
def resnet18_sigmoid(architecture: Architecture) -> nn.Module:
    """P4's ResNet-18: about 14.5 M parameters for 32x32 RGB and 100 classes."""
    check_limits(architecture)
    module = SigmoidResNet18(architecture.channels, architecture.classes, architecture.height, architecture.width)
    return started(module, architecture.weights, stem="conv1.weight", head="fc")

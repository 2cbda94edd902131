"""The residual block that the ResNet-18s share; normalisation and activation are given, not copied.

Names are torchvision's. Nothing is done in place: Opacus's hooks, torch.func and double backward all forbid it.
"""

from collections.abc import Callable

from torch import Tensor, nn

Layer = Callable[[int], nn.Module]
"""Makes a normalisation for a number of channels."""


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut (He et al. 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Layer, activation: type[nn.Module]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = norm(outputs)
        self.activation = activation()
        self.conv2 = nn.Conv2d(outputs, outputs, kernel_size=3, padding=1, bias=False)
        self.bn2 = norm(outputs)
        self.downsample = nn.Sequential()  # the identity, unless the shapes differ
        if stride != 1 or inputs != outputs:
            self.downsample.append(nn.Conv2d(inputs, outputs, kernel_size=1, stride=stride, bias=False))
            self.downsample.append(norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.activation(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y)) + self.downsample(x)
        out: Tensor = self.activation(y)
        return out


def stage(inputs: int, outputs: int, stride: int, norm: Layer, activation: type[nn.Module]) -> nn.Sequential:
    """Two blocks, as every stage of an 18 layer ResNet has."""
    return nn.Sequential(
        ResidualBlock(inputs, outputs, stride, norm, activation),
        ResidualBlock(outputs, outputs, 1, norm, activation),
    )

"""A network for demonstrations and tests: small, with BatchNorm, quick to train without a GPU."""

from torch import Tensor, nn

from fluoroscope.models.architecture import MODELS, Architecture
from fluoroscope.models.limits import check_limits
from fluoroscope.models.weights import started


def _convolution(inputs: int, outputs: int) -> list[nn.Module]:
    # No bias: the BatchNorm behind it takes any constant out again, so its gradient would be zero.
    return [nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]


class SmallCnn(nn.Module):
    """Convolution, BatchNorm, ReLU and pooling four times, a 2x2 grid of means, one dense layer."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_convolution(channels, 16),
            nn.MaxPool2d(2),
            *_convolution(16, 32),
            nn.MaxPool2d(2),
            *_convolution(32, 64),
            nn.MaxPool2d(2),
            *_convolution(64, 64),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.fc = nn.Linear(4 * 64, classes)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.body(images))
        return logits


@MODELS.register("small-cnn")
def small_cnn(architecture: Architecture) -> nn.Module:
    """About 61,000 parameters, for any size of image."""
    check_limits(architecture)
    module = SmallCnn(architecture.channels, architecture.classes)
    return started(module, architecture.weights, stem="body.0.weight", head="fc")

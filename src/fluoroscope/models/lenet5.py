"""P4's LeNet-5, the small sigmoid network on which gradient inversion was first shown (DLG, Zhu et al. 2019)."""

from torch import Tensor, nn

from fluoroscope.models.architecture import MODELS, Architecture
from fluoroscope.models.limits import check_limits
from fluoroscope.models.weights import started


class LeNet5(nn.Module):
    """Three 5x5 convolutions of 12 channels and one dense layer; sigmoid, so that second derivatives exist."""

    def __init__(self, channels: int, classes: int, height: int, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, 12, kernel_size=5, stride=2, padding=2),
            nn.Sigmoid(),
            nn.Conv2d(12, 12, kernel_size=5, stride=2, padding=2),
            nn.Sigmoid(),
            nn.Conv2d(12, 12, kernel_size=5, stride=1, padding=2),
            nn.Sigmoid(),
        )
        # Each stride 2 halves and rounds up: 32 -> 16 -> 8, 28 -> 14 -> 7.
        self.fc = nn.Linear(12 * -(-height // 4) * -(-width // 4), classes)
        for parameter in self.parameters():  # P4, from DLG: all weights and biases U(-.5, .5)
            nn.init.uniform_(parameter, -0.5, 0.5)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.body(images).flatten(1))
        return logits


@MODELS.register("lenet5")
def lenet5(architecture: Architecture) -> nn.Module:
    """P4's LeNet-5: about 85,000 parameters for 32x32 RGB and 100 classes."""
    check_limits(architecture)
    module = LeNet5(architecture.channels, architecture.classes, architecture.height, architecture.width)
    return started(module, architecture.weights, stem="body.0.weight", head="fc")

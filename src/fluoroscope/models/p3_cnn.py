"""P3's network for brain MRI: three convolutions, three dense layers. P3 wrote it in Keras, whose defaults are kept."""

from torch import Tensor, nn

from fluoroscope.models.architecture import MODELS, Architecture
from fluoroscope.models.limits import check_limits
from fluoroscope.models.weights import started


class P3Cnn(nn.Module):
    """P3 section 7: convolutions of 32, 64 and 128 channels, dense layers of 64 and 32, dropout .1."""

    def __init__(self, channels: int, classes: int, height: int, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, 32, kernel_size=3),  # no padding: Keras's default is "valid"
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, kernel_size=3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 128, kernel_size=3),
            nn.ReLU(),
        )
        rows, columns = (((side - 2) // 2 - 2) // 2 - 2 for side in (height, width))  # 128 -> 63 -> 30 -> 28
        self.dense = nn.Sequential(
            nn.Linear(128 * rows * columns, 64),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(64, 32),
            nn.ReLU(),
            nn.Dropout(0.1),
        )
        self.fc = nn.Linear(32, classes)  # logits: the softmax is in the loss
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):  # Keras's default: Glorot uniform, zero bias
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.dense(self.body(images).flatten(1)))
        return logits


@MODELS.register("p3-cnn")
def p3_cnn(architecture: Architecture) -> nn.Module:
    """P3's CNN: 6.5 M parameters for 128x128 grey and 4 classes, nearly all in the first dense layer."""
    check_limits(architecture)
    module = P3Cnn(architecture.channels, architecture.classes, architecture.height, architecture.width)
    return started(module, architecture.weights, stem="body.0.weight", head="fc")

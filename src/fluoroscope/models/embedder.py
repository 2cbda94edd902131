"""Images as features of EfficientNet-Lite0 with ImageNet weights: what IIP and t-SNE compare.

P1 used ResNet-18, pooled at its end; its weights are in no package. What is left after the last pooling says "a grey
X-ray, somewhat blurred", and no longer whose: of reconstructions of SSIM 0.78 a fifth were nearest to their original.
An earlier layer, at the images' own size and with its places kept apart, tells patients apart (docs/measured.md).
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.models.architecture import Architecture
from fluoroscope.models.efficientnet_lite0 import EfficientNetLite0


@dataclass(frozen=True)
class ImageNetEmbedder:
    """Call it with images (n, 1 or 3 channels, side, side) in [0, 1]; it gives (n, 640) on the images' device.

    Values outside [0, 1] are clipped, as any file or screen would. An image that holds NaN has an embedding of NaN.
    """

    size: int = 64
    """Images are brought to this side. Drawn out, all look blurred in the same way."""
    blocks: int = 5
    """Of the network: up to the end of its third stage, 40 channels."""
    grid: int = 4
    """Places in a row, kept apart: what is where is what patients differ by."""
    images_at_once: int = 32
    device: torch.device | str = "cpu"
    _network: EfficientNetLite0 = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.images_at_once < 1:
            raise Misconfigured(f"images_at_once must be at least 1, not {self.images_at_once}.")
        network = Architecture("efficientnet-lite0", channels=3, classes=1000, size=self.size).build()
        assert isinstance(network, EfficientNetLite0)
        # Set once, past the frozen dataclass: a network is not a setting.
        object.__setattr__(self, "_network", network.eval().requires_grad_(False).to(self.device))

    def __call__(self, images: Tensor) -> Tensor:
        if images.ndim != 4 or images.shape[1] not in (1, 3) or images.shape[2] != images.shape[3]:
            raise BadInput(
                f"the embedder takes squares (n, 1 or 3 channels, side, side), not shape {tuple(images.shape)}; "
                "pad other images, so that none is stretched."
            )
        few = torch.split(images.detach(), self.images_at_once)
        return torch.cat([self._embed(self._prepared(some)) for some in few]).to(images.device)

    def _embed(self, images: Tensor) -> Tensor:
        return self._network.features_by_place(images, self.blocks, self.grid)

    def _prepared(self, images: Tensor) -> Tensor:
        images = images.to(self.device, torch.float32)
        if images.shape[-1] != self.size:
            images = F.interpolate(images, size=(self.size, self.size), mode="bilinear", antialias=True)
        return images.clamp(0, 1).expand(-1, 3, -1, -1)

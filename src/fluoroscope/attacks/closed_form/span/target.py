"""What a network should see of each image."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Target:
    """What a network should see of each image at the input of one convolution."""

    layer: str
    maps: Tensor
    """(n, channels, h, w)."""
    scaled: bool
    """Whether the scale of the maps is known; otherwise only their direction counts."""

    def misfit(self, features: Tensor) -> Tensor:
        """Relative to the target, image by image."""
        ours, wanted = features.flatten(1), self.maps.flatten(1)
        if not self.scaled:
            ours, wanted = (v / v.norm(dim=1, keepdim=True).clamp_min(1e-12) for v in (ours, wanted))
        off: Tensor = (ours - wanted).norm(dim=1) / wanted.norm(dim=1)
        return off

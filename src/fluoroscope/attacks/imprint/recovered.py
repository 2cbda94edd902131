"""What a malicious server made of a secure sum."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Recovered:
    """Images with what the attacker, without the truth, thinks of each."""

    images: Tensor
    """(n, channels, height, width), float32; not clipped."""
    confidence: Tensor
    """(n,), 0 to 1: how well the evidence that did not make the image agrees with it."""

    def __len__(self) -> int:
        return len(self.images)

    def above(self, confidence: float) -> "Recovered":
        kept = self.confidence >= confidence
        return Recovered(self.images[kept], self.confidence[kept])


def merged(parts: list[Recovered], apart: float = 1e-3) -> Recovered:
    """All of them, each image once: of those nearer to one another than `apart` (mean square), the surest."""
    images = torch.cat([part.images for part in parts])
    confidence = torch.cat([part.confidence for part in parts])
    flat = images.flatten(1)
    kept: list[int] = []
    for i in confidence.argsort(descending=True, stable=True).tolist():
        if not kept or float((flat[kept] - flat[i]).square().mean(1).min()) > apart:
            kept.append(i)
    chosen = torch.tensor(sorted(kept), dtype=torch.int64)
    return Recovered(images[chosen], confidence[chosen])

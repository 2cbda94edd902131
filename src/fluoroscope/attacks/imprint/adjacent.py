"""P2's decoder: every bin by itself."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.attacks.imprint.bin_sums import bin_sums
from fluoroscope.attacks.imprint.craft import Crafted
from fluoroscope.attacks.imprint.recovered import Recovered, merged
from fluoroscope.types import State

EMPTY = 1e-5
"""Of the largest bin's coefficient: below it, a bin holds rounding and no image."""


@dataclass(frozen=True)
class Adjacent:
    """P2 eq. 2: x = (dW[l+1] - dW[l]) / (db[l+1] - db[l]). Right where an image is alone in its bin, else a mixture."""

    def __call__(self, crafted: Crafted, update: State) -> Recovered:
        return merged([self.read(crafted, update)[0]], apart=0.0)

    def read(self, crafted: Crafted, update: State) -> tuple[Recovered, Tensor]:
        """What every bin that could hold one image holds, and its coefficient there."""
        sums = bin_sums(crafted, update)
        size = sums.coefficients.abs()
        full = size > max(EMPTY * float(size.max()), 6 * sums.noise)
        pixels = sums.pixels[full] / sums.coefficients[full, None]
        shape = (-1, *crafted.auxiliary.shape[1:])
        noise = sums.noise / size[full]
        could = in_range(pixels, noise)
        kept = could > 0
        return Recovered(pixels.view(shape).float()[kept], could[kept]), sums.coefficients[full][kept]


def in_range(pixels: Tensor, noise: Tensor) -> Tensor:
    """1 for each row that could be an image, values in [0, 1] but for its noise; else 0."""
    slack = 0.01 + 6 * noise
    inside = (pixels.amin(1) >= -slack) & (pixels.amax(1) <= 1 + slack)
    return inside.to(torch.float32)

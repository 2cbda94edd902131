"""Square images of the size that was asked for.

An image that is not square is padded with black, half on each side: stretching would change proportions that carry
meaning (the width of a heart against its chest), cropping would cut off what may be the finding.
"""

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad


def to_square(images: Tensor, size: int | None) -> Tensor:
    """(..., channels, height, width) in [0, 1] as squares of `size`; None keeps the longer side as it is."""
    height, width = images.shape[-2:]
    side = max(height, width)
    if height != width:
        top, left = (side - height) // 2, (side - width) // 2
        images = pad(images, (left, side - width - left, top, side - height - top))
    if size is None or size == side:
        return images
    flat = images.reshape(-1, 1, side, side)
    # Bilinear with anti-aliasing never overshoots, but its weights add up to 1 only within rounding.
    resized = torch.clamp(interpolate(flat, size=(size, size), mode="bilinear", antialias=True), 0.0, 1.0)
    return resized.reshape(*images.shape[:-2], size, size)

"""Grey or colour."""

from torch import Tensor

_LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, as in JPEG and Pillow


def to_channels(image: Tensor, channels: int) -> Tensor:
    """(..., 1 or 3, height, width) with 1 (luma) or 3 (repeated) channels."""
    if image.shape[-3] == channels:
        return image
    if channels == 3:
        return image.expand(*image.shape[:-3], 3, *image.shape[-2:])
    red, green, blue = image.unbind(-3)
    luma = _LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue
    return luma.clamp(0.0, 1.0).unsqueeze(-3)

"""Whether what a layer reads holds the picture: otherwise a reading of it shows a few features, and no patient."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

LINEAR_READING = 0.9
"""Share of a picture's shape that a linear readout recovers, from which on the picture counts as held."""
SMALL_PICTURE = 8
FEWEST_VALUES = 16
"""That differ between images, in a layer that sees any difference."""
PARTS = (1, 2, 4, 8, 16, 32)
"""Equal parts of a layer's features, such as channels, in which a picture is looked for."""
ENOUGH_VALUES = 400
"""Of a small picture that somebody would recognise; or a quarter of the pixels, where they are few."""


def varies(given: Tensor) -> bool:
    """Whether a layer sees any difference between images; in a network that has died it does not."""
    spread = given.std(dim=0).square() > 1e-8 * given.square().mean(dim=0)  # a constant drowns no other value
    return int(spread.sum()) >= min(FEWEST_VALUES, spread.numel())


def holds(given: Tensor, pictures: Sequence[Tensor]) -> float:
    """How far a linear readout, learnt on the other images, recovers a small picture of each: 0 to 1.

    Features that are fewer than the pixels must do better: they are a picture only if it is plain in them. A part of
    the features may be the picture, beside any number of others.
    """
    if not pictures:
        return 1.0
    flat, most = given.flatten(1), 0.0
    for picture in pictures:
        for parts in PARTS:
            if parts > 1 and flat.shape[1] < parts * picture[0].numel() / 2:
                break
            for part in flat.chunk(parts, dim=1):
                most = max(most, _holds(part, picture))
                if most == 1:
                    return most
    return most


def _holds(given: Tensor, picture: Tensor) -> float:
    informative = int((given.std(dim=0) > 0).sum())
    low = 0.4 if informative >= picture[0].numel() / 2 else 0.8
    return min(1.0, max(0.0, (readout(given, picture) - low) / (LINEAR_READING - low)))


def recognisable(given: Tensor, pictures: Sequence[Tensor]) -> float:
    """How far the values that differ between images are enough to recognise somebody by: 0 to 1."""
    if not pictures:
        return 1.0
    informative = int((given.std(dim=0) > 0).sum())
    return min(1.0, informative / min(min(picture[0].numel() for picture in pictures) / 4, ENOUGH_VALUES))


def readout(given: Tensor, picture: Tensor) -> float:
    """Explained share (R squared, each image left out once) of the small pictures, by ridge regression."""
    n = len(given)
    features = given.double().flatten(1)
    features = features - features.mean(dim=0)
    features = features / features.std(dim=0).clamp_min(1e-12)  # a loud value beside the picture hides none of it
    gram = features @ features.T
    strength = float(gram.trace()) / n * 1e-3
    if strength == 0 or n < 8 or not bool(torch.isfinite(gram).all()):
        return 0.0
    hat = gram @ torch.linalg.inv(gram + strength * torch.eye(n, dtype=torch.double)) + 1 / n
    small = small_pictures(picture).double()
    small = small - small.mean(dim=1, keepdim=True)  # brightness alone is no picture
    centred = small - small.mean(dim=0)
    left = (centred - hat @ centred) / (1 - hat.diagonal()).clamp_min(1e-6)[:, None]
    whole = float((centred * n / (n - 1)).square().sum())
    return 1 - float(left.square().sum()) / whole if whole > 0 else 0.0


def small_pictures(picture: Tensor) -> Tensor:
    """Averaged down to a few places along each side, as rows."""
    space = picture.ndim - 2
    if space < 1:
        return picture.flatten(1)
    sides = [min(SMALL_PICTURE if space < 3 else SMALL_PICTURE // 2, side) for side in picture.shape[2:]]
    return F.interpolate(picture, size=sides, mode="area").flatten(1)

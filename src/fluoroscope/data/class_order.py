"""Images under a federation's classes: a site may hold some of them alone, and name them in another order."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from fluoroscope.errors import Misconfigured
from fluoroscope.types import ImageSet


def in_class_order(images: ImageSet, classes: Sequence[str]) -> ImageSet:
    """The same images with labels that count in `classes`.

    Raises:
        Misconfigured: the images have a class that is none of them.
    """
    if unknown := [name for name in images.classes if name not in classes]:
        raise Misconfigured(
            f"{images.name} has the class {unknown[0]!r}, and the federation's classes are: {', '.join(classes)}."
        )
    places = torch.tensor([list(classes).index(name) for name in images.classes])
    labels = images.batch.labels
    if labels.ndim == 1:
        labels = places[labels]
    else:
        labels = torch.zeros(len(labels), len(classes)).index_copy(1, places, labels)
    return replace(images, batch=replace(images.batch, labels=labels), classes=tuple(classes))

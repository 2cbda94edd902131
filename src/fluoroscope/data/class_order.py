"""A site's images under the classes that a federation has agreed on, of which it may lack some."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from fluoroscope.errors import Misconfigured
from fluoroscope.types import ImageSet


def in_class_order(found: ImageSet, classes: Sequence[str], where: str) -> ImageSet:
    """The images with their labels counted in the agreed order.

    Args:
        found: what a source gave, with the classes that it has.
        classes: what was agreed, in its order.
        where: the setting that names them, for the message.

    Raises:
        Misconfigured: the images have a class that was not agreed.
    """
    if unknown := [name for name in found.classes if name not in classes]:
        raise Misconfigured(
            f"{where} has not {unknown[0]!r}, which is a class of the images here; it has {', '.join(classes)}."
        )
    places, labels = torch.tensor([classes.index(name) for name in found.classes]), found.batch.labels
    if labels.ndim == 1:
        labels = places[labels]
    else:
        labels = torch.zeros(len(labels), len(classes)).index_copy(1, places, labels)
    return replace(found, batch=replace(found.batch, labels=labels), classes=tuple(classes))

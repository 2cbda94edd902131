"""Classes by name: a site may lack some of a federation's, and number the others in an order of its own."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from fluoroscope.errors import BadInput
from fluoroscope.types import ImageSet


def in_classes(images: ImageSet, classes: Sequence[str]) -> ImageSet:
    """The same images, their labels numbered as in this list of names.

    Raises:
        BadInput: a class of the images is not in the list.

    Example:
        >>> import torch
        >>> from fluoroscope.types import PrivateBatch
        >>> batch = PrivateBatch(torch.zeros(1, 1, 8, 8), torch.tensor([0]), ("anna",))
        >>> held = ImageSet("one", batch, ("pneumonia",), "none")
        >>> in_classes(held, ["normal", "pneumonia"]).batch.labels
        tensor([1])
    """
    if unknown := [name for name in images.classes if name not in classes]:
        raise BadInput(
            f"{images.name} has the class {unknown[0]!r}, which is none of {', '.join(classes)}: name all classes in "
            "the order of the network's outputs, as the images' folders or table have them."
        )
    places, labels = torch.tensor([list(classes).index(name) for name in images.classes]), images.batch.labels
    if labels.ndim == 1:
        labels = places[labels]
    else:
        labels = labels.new_zeros(len(labels), len(classes)).index_copy(1, places, labels)
    return replace(images, batch=replace(images.batch, labels=labels), classes=tuple(classes))

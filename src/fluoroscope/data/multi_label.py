"""Several findings per image, written as one label: `Effusion|Mass`, as NIH ChestX-ray14 does."""

from dataclasses import replace

import torch

from fluoroscope.types import ImageSet

SEPARATOR = "|"


def with_findings(images: ImageSet) -> ImageSet:
    """The set with a label per finding (n, findings), 1 where it is there; its classes are the findings' names."""
    parts = [[part.strip() for part in name.split(SEPARATOR)] for name in images.classes]
    names = sorted({part for each in parts for part in each})
    rows = torch.tensor([[float(name in each) for name in names] for each in parts])
    batch = replace(images.batch, labels=rows[images.batch.labels])
    return replace(images, batch=batch, classes=tuple(names))

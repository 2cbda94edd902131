"""Which of the images that were found shared a step.

BatchNorm's derivative sums to zero over a step's positions, so a step's patches are in the span of an update up to one
common vector. It drops out of what two images of the same step differ by, and of nothing else: those mixtures of maps
whose patches lie in the span as they are, without their mean, tell the steps apart. No descent, no public image.
"""

import torch
from torch import Tensor

from fluoroscope.attacks.closed_form.span.layers import Layer

SAME = 0.5
"""Cosine between two maps' parts outside all differences: 1 within a step, 0 between two."""


def step_groups(span: Tensor, layer: Layer, maps: Tensor, steps: int) -> list[Tensor] | None:
    """The numbers of the maps (n, channels, h, w) of each step, `steps` at most; None where that is not clear.

    The rows of `span` are orthogonal, as `row_space` gives them. The maps are single images', each of any scale.
    """
    if steps == 1:
        return [torch.arange(len(maps))]
    means = layer.patches(maps).mean(2)
    basis = span / span.norm(dim=1, keepdim=True)
    apart = means - means @ basis.T @ basis
    apart = apart / means.norm(dim=1, keepdim=True)
    # A step's images all point in one direction here, each as long as its scale: one direction per step.
    vectors = torch.linalg.eigh(apart @ apart.T).eigenvectors[:, -steps:]
    units = vectors / vectors.norm(dim=1, keepdim=True).clamp_min(1e-12)
    alike = (units @ units.T).abs() > SAME
    if not torch.equal(alike, (alike.double() @ alike.double()) > 0):  # no equivalence: maps stand between two steps
        return None
    firsts = alike.int().argmax(1)
    groups = [(firsts == first).nonzero()[:, 0] for first in firsts.unique().tolist()]
    return groups if len(groups) <= steps else None

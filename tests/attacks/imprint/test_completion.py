"""Pixels that two features' bins leave open: [0, 1] settles them, or the neighbours do, and it is known which."""

import torch

from fluoroscope.attacks.imprint.completion import _nearest, normal_equations

from .victims import rng

CIRCLE = torch.tensor([[0, 3], [0, 4], [1, 4], [1, 3]])
"""Four images in four bins, each bin shared by two: their sums leave one direction open."""
VALUES = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)


def equations(images):
    bins = torch.zeros(6, images.shape[1], dtype=torch.float64)
    for held in CIRCLE.T:
        bins.index_add_(0, held, VALUES[:, None] * images)
    return normal_equations(CIRCLE, VALUES, torch.ones_like(CIRCLE, dtype=torch.bool), bins)


def test_normal_equations_are_those_of_the_full_design():
    images = torch.rand((4, 7), generator=rng(), dtype=torch.float64)
    design = torch.zeros(6, 4, dtype=torch.float64)
    for image, held in enumerate(CIRCLE):
        design[held, image] = VALUES[image]
    normal, right = equations(images)
    torch.testing.assert_close(normal, design.T @ design)
    torch.testing.assert_close(right, design.T @ design @ images)


def test_what_the_bins_leave_open_is_as_is_likely():
    images = torch.rand((4, 7), generator=rng(), dtype=torch.float64)
    normal, right = equations(images)
    torch.testing.assert_close(_nearest(normal, right, images), images)
    other = _nearest(normal, right, images.clamp(0.4, 0.6))
    torch.testing.assert_close(normal @ other, right)
    assert (other - images).abs().max() > 0.01


def test_binary_images_are_settled_by_their_range():
    """Along the open direction the first two go up together: at 1 the one cannot, at 0 the other cannot go down."""
    images = torch.tensor([[0.0], [1], [0], [1]], dtype=torch.float64)
    normal, right = equations(images)
    found = _nearest(normal, right, torch.full_like(images, 0.5))
    torch.testing.assert_close(found, images, rtol=0, atol=0.01)

"""Large images as a sum of grids: the same images, the same gradient, and a descent that needs fewer steps."""

from itertools import pairwise

import pytest
import torch

from fluoroscope.attacks.common.engine import Budget, descend
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.common.pyramid import COARSEST, Pyramid


def distance(target):
    """Half the squared distance of pixels from `target`, and its gradient."""

    def evaluate(x, rows):
        off = x - target.flatten()
        return off.square().sum(1) / 2, off

    return evaluate


@pytest.mark.parametrize("size", [(96, 96), (224, 160), (9, 100)])
def test_grids_halve_down_to_the_coarsest(size):
    pyramid = Pyramid(torch.rand(2, 3, *size))
    sides = [shape[2:] for shape in pyramid.shapes]
    assert sides[0] == size
    assert all(b == tuple(side // 2 for side in a) for a, b in pairwise(sides))
    assert COARSEST <= min(sides[-1]) < 2 * COARSEST
    torch.testing.assert_close(pyramid.images(pyramid.origin[0]), pyramid.start)


def test_the_gradient_is_that_of_the_coordinates():
    rng = torch.Generator().manual_seed(0)
    pyramid = Pyramid(0.4 + 0.2 * torch.rand(1, 1, 16, 14, generator=rng, dtype=torch.float64))
    of_coordinates = pyramid.over(distance(torch.rand(1, 1, 16, 14, generator=rng, dtype=torch.float64)))
    x = 0.01 * torch.randn(pyramid.origin.shape, generator=rng, dtype=torch.float64)
    way = torch.randn(x.shape, generator=rng, dtype=torch.float64)
    rows, small = torch.zeros(1, dtype=torch.long), 1e-6
    slope = (of_coordinates(x + small * way, rows)[0] - of_coordinates(x - small * way, rows)[0]) / (2 * small)
    torch.testing.assert_close((of_coordinates(x, rows)[1] * way).sum(1), slope, rtol=1e-6, atol=1e-8)


def test_images_stay_in_their_range_and_come_back():
    pyramid = Pyramid(torch.full((1, 1, 16, 16), 0.9))
    outside = pyramid.origin + 1.0
    assert pyramid.images(outside[0]).max() == 1
    values, gradient = pyramid.over(distance(torch.full((1, 1, 16, 16), 0.5)))(outside, torch.zeros(1).long())
    assert values.isfinite().all()
    assert (gradient > 0).all(), "what is beyond the range is pulled back"


def test_broad_changes_take_fewer_steps():
    across = torch.linspace(0, 3.14, 128).sin()
    target = 0.1 + 0.8 * across[:, None] * across
    start = torch.full((1, 1, 128, 128), 0.5)
    pyramid, adam, schedule, budget = Pyramid(start), Adam(0.02), Schedule(), Budget(12)
    plain = descend(distance(target), start.flatten()[None], adam, schedule, budget, lambda x: x)
    grids = descend(pyramid.over(distance(target)), pyramid.origin, adam, schedule, budget, lambda x: x)
    assert float(grids.values) < 0.6 * float(plain.values)

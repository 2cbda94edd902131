"""The random-image baseline against all pairs."""

import pytest
import torch

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.rng import generator
from fluoroscope.scores.baselines import random_image
from fluoroscope.scores.similarity import mse_matrix, ssim_matrix


def images(n, channels=1):
    g = torch.Generator().manual_seed(n)
    return torch.rand(n, channels, 12, 15, generator=g) * torch.rand(n, 1, 1, 1, generator=g)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("channels", [1, 3])
def test_it_approaches_the_mean_over_all_pairs(channels, seed):
    given = images(8, channels)
    others = ~torch.eye(8, dtype=torch.bool)
    baseline = random_image(given, generator(seed), pairs=3000)
    for interval, matrix in ((baseline.mse, mse_matrix), (baseline.ssim, ssim_matrix)):
        exact = float(matrix(given, given)[others].mean())
        assert interval.n == 3000
        assert abs(interval.mean - exact) < interval.high - interval.low  # four standard errors


def test_the_other_image_is_never_the_same():
    """With two images there is one pair, whichever way round."""
    given = images(2)
    baseline = random_image(given, generator(0), pairs=50)
    assert baseline.mse.low == pytest.approx(float(mse_matrix(given, given)[0, 1]))
    assert baseline.mse.high == pytest.approx(baseline.mse.low)
    assert baseline.ssim.high < 1


def test_the_same_generator_gives_the_same_baseline():
    assert random_image(images(5), generator(3), 20) == random_image(images(5), generator(3), 20)
    assert random_image(images(5), generator(3), 20) != random_image(images(5), generator(4), 20)


def test_too_few_are_named():
    with pytest.raises(BadInput, match="at least 2 images, not 1"):
        random_image(images(1), generator(0))
    with pytest.raises(Misconfigured, match="at least 1, not 0"):
        random_image(images(3), generator(0), pairs=0)

"""Thresholds at equal shares of the auxiliary images."""

import math

import pytest
import torch
from scipy.stats import norm

from fluoroscope.attacks.imprint import Brightness, SmoothProjections
from fluoroscope.attacks.imprint.bins import BELOW, make_bins
from fluoroscope.attacks.imprint.features import Feature
from fluoroscope.errors import Misconfigured

from .victims import phantoms, rng

PIXEL = (Feature(torch.ones(1)),)


def gaussian(count, seed):
    """Images of one pixel: the feature is its value, so its distribution is known."""
    return torch.randn((count, 1, 1, 1), generator=rng(seed), dtype=torch.float64)


@pytest.mark.parametrize("features", [Brightness(), SmoothProjections(1), SmoothProjections()])
@pytest.mark.parametrize("neurons", [20, 121, 400])
def test_thresholds_rise(features, neurons):
    bins = make_bins(features((1, 28, 28), rng()), neurons, phantoms(400, 99).images)
    assert bins.thresholds.shape == (len(bins.features), bins.width)
    assert (bins.thresholds.diff() > 0).all()


def test_thresholds_are_quantiles_of_the_smoothed_distribution():
    """Closed form: a Gaussian smoothed by a Gaussian is a wider Gaussian."""
    count = 20000
    bins = make_bins(PIXEL, 1 + BELOW + 20, gaussian(count, 1))
    wider = math.hypot(1, 0.9 * count ** (-1 / 5))
    expected = torch.from_numpy(norm.ppf((torch.arange(20).numpy() + 0.5) / 20) * wider)
    torch.testing.assert_close(bins.thresholds[0, BELOW:], expected, rtol=0, atol=0.05)


def test_each_bin_holds_an_equal_share():
    """Of images that are as the auxiliary ones; the two at the ends hold half a share each."""
    count, inner = 8000, 10
    bins = make_bins(PIXEL, 1 + BELOW + inner, gaussian(count, 1))
    assert bins.width == BELOW + inner
    held = torch.bincount(bins.locate(0, gaussian(count, 2).flatten()) + 1, minlength=bins.width + 1)
    assert held[:BELOW].tolist() == [0] * BELOW
    shares = torch.tensor([0.5, *[1.0] * (inner - 1), 0.5], dtype=torch.float64) / inner
    spread = (2 * count * shares * (1 - shares)).sqrt()  # of both samples
    assert ((held[BELOW:] - count * shares).abs() < 5 * spread).all()


def test_a_peak_beside_long_tails_is_cut_as_finely_as_it_is_high():
    """As images without contrast lie among others: most values within a hundredth of the spread of all."""
    values, others = (torch.cat([0.01 * gaussian(800, seed), gaussian(200, seed + 1)]) for seed in (1, 3))
    bins = make_bins(PIXEL, 1 + BELOW + 50, values)
    held = torch.bincount(bins.locate(0, others.flatten()), minlength=bins.width)
    assert held.max() < 3 * len(others) / 50


def test_bins_of_phantoms_hold_new_phantoms_evenly():
    bins = make_bins(SmoothProjections()((1, 28, 28), rng(1)), 40, phantoms(400, 99).images)
    for i, feature in enumerate(bins.features):
        held = torch.bincount(bins.locate(i, feature(phantoms(300, 7).images)), minlength=bins.width)
        share = 300 / (bins.width - BELOW)
        assert held[BELOW:-1].min() > 0.4 * share
        assert held.max() < 1.8 * share


def test_a_gap_between_auxiliary_images_has_thresholds_too():
    """Of few images, the plain quantiles would all lie at one of them."""
    values = torch.tensor([0.2, 0.4, 0.6, 0.8]).view(-1, 1, 1, 1)
    thresholds = make_bins(PIXEL, 80, values).thresholds[0, BELOW:]
    assert thresholds.diff().max() < 0.1


def test_locate_agrees_with_a_loop():
    bins = make_bins(SmoothProjections()((1, 28, 28), rng()), 60, phantoms(400, 99).images)
    for i, row in enumerate(bins.thresholds):
        values = torch.cat([row, row - 1e-9, row + 1e-9, torch.tensor([-9.0, 9.0]), torch.rand(50, generator=rng())])
        slow = [sum(bool(value >= threshold) for threshold in row) - 1 for value in values]
        assert bins.locate(i, values).tolist() == slow
        assert {-1, 0, bins.width - 1} <= set(slow)


def test_the_first_thresholds_are_below_every_image():
    images = phantoms(400, 99).images
    for features in (Brightness(), SmoothProjections()):
        bins = make_bins(features((1, 28, 28), rng()), 60, images)
        for feature, row in zip(bins.features, bins.thresholds, strict=True):
            assert (row[:BELOW] < feature(images).min()).all()


@pytest.mark.parametrize("neurons", range(13, 20))
def test_a_neuron_is_left_that_never_fires(neurons):
    bins = make_bins(SmoothProjections()((1, 28, 28), rng()), neurons, phantoms(400, 99).images)
    assert bins.neurons == neurons
    assert bins.silent == 3 * bins.width
    assert 1 <= neurons - bins.silent <= 3


def test_too_few_neurons_are_refused_and_the_number_that_works_is_said():
    features, images = SmoothProjections()((1, 28, 28), rng()), phantoms(400, 99).images
    with pytest.raises(Misconfigured, match=r"12 neurons are too few for 3 features: use at least 13\."):
        make_bins(features, 12, images)
    assert make_bins(features, 13, images).width == 4


@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_auxiliary_set_is_refused(count):
    with pytest.raises(Misconfigured, match=f"not {count} images; enlarge partition.auxiliary"):
        make_bins(Brightness()((1, 28, 28), rng()), 20, phantoms(400, 99).images[:count])


def test_images_that_are_all_the_same_still_give_rising_thresholds():
    bins = make_bins(Brightness()((1, 28, 28), rng()), 20, phantoms(1, 3).images.repeat(5, 1, 1, 1))
    assert (bins.thresholds.diff() > 0).all()

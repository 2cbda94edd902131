"""What crafted neurons measure: ratios on lattices of their own, or plain brightness."""

import pytest
import torch

from fluoroscope.attacks.imprint import Brightness, SmoothProjections
from fluoroscope.attacks.imprint.features import Feature
from fluoroscope.errors import Misconfigured

from .victims import phantoms, rng

SHAPES = [(1, 28, 28), (3, 32, 32)]
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def images_of(shape):
    return torch.rand((7, *shape), generator=rng(5), dtype=torch.float64)


@each_shape
def test_a_projection_does_not_change_with_the_exposure(shape):
    images = images_of(shape)
    for feature in SmoothProjections(4)(shape, rng()):
        for factor in (0.9, 0.25, 0.01):
            torch.testing.assert_close(feature(images * factor), feature(images), rtol=1e-12, atol=0)


@each_shape
def test_brightness_is_the_mean_and_changes_with_the_exposure(shape):
    (feature,) = Brightness()(shape, rng())
    images = images_of(shape)
    torch.testing.assert_close(feature(images), images.mean((1, 2, 3)), rtol=1e-6, atol=0)
    torch.testing.assert_close(feature(images / 4), images.mean((1, 2, 3)) / 4, rtol=1e-6, atol=0)


def test_a_feature_equals_the_slow_sum():
    numerator, denominator = torch.rand(2, 16, generator=rng())
    images = images_of((1, 4, 4))
    for image, found in zip(images, Feature(numerator, denominator)(images).tolist(), strict=True):
        above = sum(float(w) * float(x) for w, x in zip(numerator, image.flatten(), strict=True))
        below = sum(float(w) * float(x) for w, x in zip(denominator, image.flatten(), strict=True))
        assert found == pytest.approx(above / below, rel=1e-12)


@each_shape
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_no_lattice_touches_another(shape, count):
    """Not even at a corner: around a pixel of one there are only pixels that no feature has."""
    supports = [feature.support.view(shape) for feature in SmoothProjections(count)(shape, rng())]
    assert len(supports) == count
    for i, support in enumerate(supports):
        around = torch.nn.functional.max_pool2d(support.double()[None], 3, 1, 1)[0] > 0
        assert support.any()
        assert not any((around & other).any() for j, other in enumerate(supports) if j != i)


@each_shape
def test_support_is_where_the_weights_are(shape):
    for feature in SmoothProjections(4)(shape, rng()):
        assert torch.equal(feature.support, feature.denominator != 0)
        assert not feature.numerator[~feature.support].any()
        # One pixel in sixteen, of every channel.
        assert int(feature.support.sum()) == shape[0] * (shape[1] // 4) * (shape[2] // 4)
    (brightness,) = Brightness()(shape, rng())
    assert brightness.support.all()
    assert Feature(torch.tensor([0.0, 1.0, -1.0])).support.tolist() == [False, True, True]


def test_a_projection_of_an_image_lies_between_0_and_1():
    """The weights do, and it is their mean: against images of one bright pixel."""
    shape = (1, 28, 28)
    points = torch.eye(28 * 28).view(-1, *shape)
    for feature in SmoothProjections()(shape, rng()):
        on = feature(points[feature.support])
        assert on.min() >= 0
        assert on.max() <= 1 + 1e-6
        assert on.std() > 0.05
        torch.testing.assert_close(feature(torch.ones(1, *shape))[0], on.mean(), rtol=1e-5, atol=0)


def test_a_black_image_has_a_finite_projection():
    for feature in SmoothProjections()((1, 28, 28), rng()):
        assert feature(torch.zeros(1, 1, 28, 28)).tolist() == [0.0]


def test_projections_tell_phantoms_apart_and_from_one_another():
    images = phantoms(60, 3).images
    values = torch.stack([feature(images) for feature in SmoothProjections()((1, 28, 28), rng(1))])
    assert values.std(1).min() > 1e-3
    assert torch.corrcoef(values).triu(1).abs().max() < 0.95


def test_the_generator_decides_the_weights():
    once, again, other = (SmoothProjections()((1, 28, 28), rng(seed)) for seed in (1, 1, 2))
    assert all(torch.equal(a.numerator, b.numerator) for a, b in zip(once, again, strict=True))
    assert not any(torch.equal(a.numerator, b.numerator) for a, b in zip(once, other, strict=True))


@pytest.mark.parametrize("count", [-1, 0, 5])
def test_more_projections_than_lattices_are_refused(count):
    with pytest.raises(Misconfigured, match=f"1 to 4 smooth projections, not {count}"):
        SmoothProjections(count)

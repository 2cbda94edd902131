"""Similarities against scikit-image and against one another."""

import math

import pytest
import torch
from skimage.metrics import mean_squared_error, peak_signal_noise_ratio, structural_similarity

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.scores.similarity import mse, mse_matrix, psnr, ssim, ssim_matrix

SHAPES = [(1, 64, 64), (3, 32, 32), (1, 11, 11), (3, 17, 29), (2, 11, 40)]
LITTLE_MEMORY = 100_000
"""Enough for blocks of a few images each."""


def oracle(a, b):
    """scikit-image in float64, one pair at a time."""
    settings = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "data_range": 1}
    return structural_similarity(a.double().numpy(), b.double().numpy(), channel_axis=0, **settings)


def oracle_matrix(a, b):
    return torch.tensor([[oracle(x, y) for y in b] for x in a], dtype=torch.float64)


def images(n, shape, seed, dtype=torch.float32):
    """Noise, smooth shapes, flat black and flat white: where SSIM is easy, and where it cancels."""
    g = torch.Generator().manual_seed(seed)
    noise = torch.rand(n, *shape, generator=g, dtype=torch.float64)
    ramp = torch.linspace(0, 1, shape[-1], dtype=torch.float64).expand(shape)
    mixed = torch.rand(n, 1, 1, 1, generator=g, dtype=torch.float64) * noise * 0.2 + 0.8 * ramp.roll(seed, -1)
    mixed[0] = noise[0]
    mixed[1, ..., : shape[-1] // 2] = 0
    mixed[2] = 1
    return mixed.to(dtype)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ssim_is_that_of_scikit_image(shape, seed, dtype):
    a, b = images(6, shape, seed, dtype), images(6, shape, seed + 100, dtype).flip(0)
    expected = torch.tensor([oracle(x, y) for x, y in zip(a, b, strict=True)], dtype=torch.float64)
    assert ssim(a, b).dtype == dtype
    assert (ssim(a, b) - expected).abs().max() < (1e-6 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_all_pairs_are_those_of_scikit_image(shape, seed, dtype, tolerance):
    a, b = images(4, shape, seed, dtype), images(5, shape, seed + 100, dtype)
    assert (ssim_matrix(a, b) - oracle_matrix(a, b)).abs().max() < tolerance


def test_values_outside_the_scale_are_scored_too():
    a, b = 4 * images(4, (1, 20, 20), 0) - 2, 4 * images(4, (1, 20, 20), 1) - 2
    assert (ssim_matrix(a, b) - oracle_matrix(a, b)).abs().max() < 1e-5
    assert (ssim(a, b) - oracle_matrix(a, b).diagonal()).abs().max() < 1e-6


def test_more_pairs_than_are_filtered_at_once():
    a, b = images(150, (1, 12, 12), 0), images(150, (1, 12, 12), 1)
    assert torch.allclose(ssim(a, b), ssim_matrix(a, b).diagonal(), atol=1e-6)


def test_little_memory_gives_the_same_scores():
    a, b = images(9, (3, 16, 13), 0), images(11, (3, 16, 13), 1)
    assert torch.allclose(ssim_matrix(a, b, memory=LITTLE_MEMORY), ssim_matrix(a, b), atol=1e-6)


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_gives_the_same_scores_and_is_left_as_it_was(threads):
    a, b = images(200, (1, 12, 12), 0), images(30, (1, 12, 12), 1)
    expected, before = ssim_matrix(a, b), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert torch.allclose(ssim_matrix(a, b), expected, atol=1e-6)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_no_gradient_flows_through_all_pairs():
    assert not ssim_matrix(images(3, (1, 12, 12), 0).requires_grad_(), images(3, (1, 12, 12), 1)).requires_grad


def test_too_little_memory_names_what_it_takes():
    a = images(3, (1, 16, 16), 0)
    with pytest.raises(Misconfigured, match=r"memory = 100 bytes .* at least (\d+)") as caught:
        ssim_matrix(a, a, memory=100)
    enough = int(str(caught.value).split()[-1].rstrip("."))
    assert torch.allclose(ssim_matrix(a, a, memory=enough), ssim_matrix(a, a), atol=1e-6)


def test_an_image_is_one_with_itself_and_below_one_with_others():
    a = images(6, (1, 24, 24), 3)
    scores = ssim_matrix(a, a)
    assert torch.allclose(scores.diagonal(), torch.ones(6), atol=1e-6)
    assert (scores - torch.eye(6) < 1 - 1e-3).all()
    assert torch.allclose(scores, scores.T, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES)
def test_mse_and_psnr_are_those_of_scikit_image(shape, seed):
    a, b = images(5, shape, seed), images(5, shape, seed + 100)
    pairs = list(zip(a.double().numpy(), b.double().numpy(), strict=True))
    assert mse(a, b).tolist() == pytest.approx([mean_squared_error(x, y) for x, y in pairs], rel=1e-5)
    expected = [peak_signal_noise_ratio(x, y, data_range=1) for x, y in pairs[:2]]
    assert psnr(a, b)[:2].tolist() == pytest.approx(expected, rel=1e-5)
    expected = torch.stack([mse(a, y.expand_as(a)) for y in b], 1)
    assert torch.allclose(mse_matrix(a, b), expected, rtol=1e-5, atol=0)


def test_exact_recoveries_are_not_clipped():
    a = images(3, (1, 28, 28), 0)
    assert psnr(a, a).tolist() == [math.inf] * 3
    assert mse_matrix(a, a).diagonal().tolist() == [0.0] * 3
    nearly = a.double() + 1e-7
    assert psnr(nearly, a.double()).tolist() == pytest.approx([140] * 3, abs=1e-6)
    assert (-10 * mse_matrix(nearly, a.double()).diagonal().log10()).tolist() == pytest.approx([140] * 3, abs=1e-6)


def test_a_diverged_image_has_no_score_and_spoils_no_other():
    a = images(3, (1, 16, 16), 0)
    bad = a.clone()
    bad[1, 0, 8, 8] = math.nan
    for score in (ssim, mse, psnr):
        assert score(bad, a).isnan().tolist() == [False, True, False]
    for matrix in (ssim_matrix, mse_matrix):
        assert matrix(bad, a).isnan().any(1).tolist() == [False, True, False]


def test_no_images_no_scores():
    none, some = torch.rand(0, 1, 16, 16), torch.rand(3, 1, 16, 16)
    assert ssim(none, none).shape == mse(none, none).shape == psnr(none, none).shape == (0,)
    assert ssim_matrix(none, some).shape == mse_matrix(none, some).shape == (0, 3)
    assert ssim_matrix(some, none).shape == mse_matrix(some, none).shape == (3, 0)


def test_half_precision_is_scored_in_single_precision():
    a, b = images(4, (1, 16, 16), 0).half(), images(4, (1, 16, 16), 1).half()
    assert ssim(a, b).dtype == ssim_matrix(a, b).dtype == mse(a, b).dtype == torch.float32
    assert (ssim_matrix(a, b) - oracle_matrix(a, b)).abs().max() < 1e-6


def test_inputs_are_left_as_they_were():
    a, b = images(4, (1, 16, 16), 0), images(4, (1, 16, 16), 1)
    before = a.clone(), b.clone()
    for score in (ssim, mse, psnr, ssim_matrix, mse_matrix):
        score(a, b)
    assert torch.equal(a, before[0])
    assert torch.equal(b, before[1])


@pytest.mark.parametrize("score", [ssim, ssim_matrix])
def test_an_image_smaller_than_the_window_is_named(score):
    with pytest.raises(BadInput, match=r"at least 11 x 11 pixels, one window, not 10 x 28; resize"):
        score(torch.rand(2, 1, 10, 28), torch.rand(2, 1, 10, 28))


@pytest.mark.parametrize("score", [ssim, mse, psnr, ssim_matrix, mse_matrix])
def test_what_is_no_image_is_named(score):
    fine = torch.rand(2, 1, 16, 16)
    with pytest.raises(BadInput, match=r"torch.uint8 of shape \(2, 1, 16, 16\); scale integers"):
        score(fine, torch.zeros(2, 1, 16, 16, dtype=torch.uint8))
    with pytest.raises(BadInput, match=r"shape \(1, 16, 16\)"):
        score(fine[0], fine)
    with pytest.raises(BadInput, match=r"\(1, 16, 16\) and \(3, 16, 16\)"):
        score(fine, torch.rand(2, 3, 16, 16))


@pytest.mark.parametrize("score", [ssim, mse, psnr])
def test_partners_must_be_as_many(score):
    with pytest.raises(BadInput, match="2 images have no partners among 3"):
        score(torch.rand(2, 1, 16, 16), torch.rand(3, 1, 16, 16))

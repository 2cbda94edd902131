"""RDLV against its closed forms and against scikit-image in a loop."""

import math

import pytest
import torch
from skimage.metrics import structural_similarity

from fluoroscope.errors import BadInput
from fluoroscope.rng import generator
from fluoroscope.scores.intervals import bootstrap_mean
from fluoroscope.scores.rdlv import mean_rdlv, rdlv
from fluoroscope.scores.similarity import ssim


def oracle(a, b):
    settings = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "data_range": 1}
    return structural_similarity(a.double().numpy(), b.double().numpy(), channel_axis=0, **settings)


def client(channels, seed=0, n=6):
    """Alike but not equal images, and their mean as the prior."""
    g = torch.Generator().manual_seed(seed)
    shape = torch.rand(1, channels, 20, 20, generator=g)
    training = (0.6 * shape + 0.4 * torch.rand(n, channels, 20, 20, generator=g)).clamp(0, 1)
    return training, training.mean(0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("channels", [1, 3])
def test_it_is_the_loop_of_the_paper(channels, seed):
    training, prior = client(channels, seed)
    noise = torch.rand(4, channels, 20, 20, generator=torch.Generator().manual_seed(seed + 50))
    reconstructions = 0.7 * training[[4, 1, 1, 0]] + 0.3 * noise
    result = rdlv(reconstructions, training, prior)
    for i, image in enumerate(reconstructions):
        similarities = [oracle(original, image) for original in training]
        nearest = max(range(len(training)), key=similarities.__getitem__)
        to_prior = oracle(training[nearest], prior)
        assert int(result.nearest[i]) == nearest
        assert float(result.similarity[i]) == pytest.approx(similarities[nearest], abs=1e-6)
        assert float(result.values[i]) == pytest.approx((similarities[nearest] - to_prior) / to_prior, abs=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_prior_leaks_nothing(channels):
    training, prior = client(channels)
    assert rdlv(prior[None], training, prior).values.tolist() == pytest.approx([0.0], abs=1e-6)


def test_the_original_leaks_all_there_is():
    training, prior = client(1)
    result = rdlv(training, training, prior)
    assert result.nearest.tolist() == list(range(len(training)))
    expected = 1 / ssim(training, prior.expand_as(training)) - 1
    assert result.values.tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_noise_is_worse_than_the_prior():
    training, prior = client(1)
    noise = torch.rand(5, 1, 20, 20, generator=torch.Generator().manual_seed(9))
    assert (rdlv(noise, training, prior).values < 0).all()


@pytest.mark.parametrize("unlike", ["negative", "black"])
def test_a_prior_unlike_the_image_gives_no_ratio(unlike):
    """The printed formula would give the original a large negative value, or a huge one."""
    training, _ = client(1)
    prior = 1 - training[0] if unlike == "negative" else torch.zeros(1, 20, 20)
    result = rdlv(training[:1], training[:1], prior)
    assert float(result.prior_similarity) < 0.01
    assert result.values.isnan().all()
    assert float(result.similarity) == pytest.approx(1)


def test_a_diverged_reconstruction_has_no_value_and_spoils_no_other():
    training, prior = client(1)
    reconstructions = training[:3].clone()
    reconstructions[1] = math.nan
    assert rdlv(reconstructions, training, prior).values.isnan().tolist() == [False, True, False]


def test_the_mean_counts_what_is_defined():
    values = torch.tensor([0.1, math.nan, 0.3, 0.2])
    interval = mean_rdlv(values, generator(0))
    assert interval == bootstrap_mean(torch.tensor([0.1, 0.3, 0.2]), generator(0))
    assert interval.n == 3
    assert interval.low <= interval.mean <= interval.high
    assert mean_rdlv(values[1:2], generator(0)).n == 0


def test_no_reconstructions_have_no_values():
    training, prior = client(1)
    assert rdlv(training[:0], training, prior).values.shape == (0,)


def test_what_cannot_be_compared_is_named():
    training, prior = client(1)
    with pytest.raises(BadInput, match=r"one image .* not shape \(1, 1, 20, 20\)"):
        rdlv(training, training, prior[None])
    with pytest.raises(BadInput, match="there are none"):
        rdlv(training, training[:0], prior)
    with pytest.raises(BadInput, match=r"\(1, 20, 20\) and \(1, 24, 24\)"):
        rdlv(training, training, torch.rand(1, 24, 24))

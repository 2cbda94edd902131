"""What a claim counts, against dp-accounting and closed forms; what it leaves to a reconstruction."""

import math

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from scipy.stats import norm

from fluoroscope.defences.central_dp import CentralDp
from fluoroscope.defences.chain import chain
from fluoroscope.defences.clip_and_noise import ClipAndNoise
from fluoroscope.defences.contract import Participation
from fluoroscope.defences.dp_sgd import DpSgd
from fluoroscope.defences.mechanism import SampledGaussian, gaussian_epsilon
from fluoroscope.defences.pruning import Pruning
from fluoroscope.defences.reconstruction_bound import claim_bound, mechanism_bound
from fluoroscope.errors import Misconfigured
from fluoroscope.types import LocalTraining, Sgd

PART = Participation(LocalTraining(Sgd(0.1), 100, batch_size=10, epochs=2), rounds=3, clients=4, share=0.5)


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
def test_epsilon_of_a_gaussian_is_dp_accounting_s(multiplier, delta):
    theirs = from_gaussian_mechanism(multiplier).get_epsilon_for_delta(delta)
    assert gaussian_epsilon(1 / multiplier, delta) == pytest.approx(theirs, abs=1e-3)
    assert SampledGaussian(multiplier * 2, times=4).tight_epsilon(delta) == pytest.approx(theirs, abs=1e-3)


@pytest.mark.parametrize(("rate", "times"), [(1.0, 1), (1.0, 10), (0.5, 1), (0.2, 20)])
def test_the_tight_epsilon_is_just_below_the_claimed(rate, times):
    mechanism = SampledGaussian(1.0, rate, times)
    assert 0.7 * mechanism.epsilon(1e-5) < mechanism.tight_epsilon(1e-5) <= mechanism.epsilon(1e-5)


def test_no_noise_at_all_and_none_to_speak_of():
    assert gaussian_epsilon(0.0, 1e-5) == 0
    assert gaussian_epsilon(1e-6, 1e-5) == 0
    assert gaussian_epsilon(100.0, 1e-5) > 5000  # e^epsilon has no float here


@pytest.mark.parametrize("alarms", [0.001, 0.05, 0.3, 0.8])
def test_the_trade_off_of_one_sampled_sum_is_the_likelihood_ratio_test_s(alarms):
    """Thresholds on the sum are the best test of a mixture, one way; the other way is the inverse function."""
    rate, multiplier = 0.4, 0.8
    t = norm.isf(alarms) * multiplier
    one_way = (1 - rate) * norm.cdf(t / multiplier) + rate * norm.cdf((t - 1) / multiplier)
    thresholds = np.linspace(-8, 8, 200_001)
    mixed = (1 - rate) * norm.sf(thresholds / multiplier) + rate * norm.sf((thresholds - 1) / multiplier)
    # H0 and H1 exchanged: false alarms are misses of the first, and misses its false alarms.
    other_way = norm.sf(np.interp(alarms, 1 - mixed, thresholds) / multiplier)
    found = SampledGaussian(multiplier, rate).misses(alarms)
    assert found <= min(one_way, other_way) + 1e-9
    # A claim is for both ways at once, so it grants the convex hull of their minimum.
    assert found >= min(one_way, other_way) - 0.02


def test_the_trade_off_of_many_sums_without_sampling_is_one_of_less_noise():
    assert SampledGaussian(2.0, times=4).misses(0.1) == pytest.approx(SampledGaussian(1.0).misses(0.1))
    assert SampledGaussian(1.0).misses(0.1) == pytest.approx(norm.cdf(norm.isf(0.1) - 1))
    assert [SampledGaussian(1.0).misses(alarms) for alarms in (0.0, 1.0)] == [1.0, 0.0]


def test_each_claim_says_what_it_is_counted_from():
    for defence, expected in (
        (DpSgd(1.0, 1.5), SampledGaussian(1.5, 0.1, 60)),
        (ClipAndNoise(1.0, 1.5), SampledGaussian(0.75, times=3)),
        (CentralDp(1.0, 1.5), SampledGaussian(0.75, times=3)),
    ):
        assert chain(defence).counted(PART) == expected
        assert defence.claim(PART).epsilon == expected.epsilon(1e-5)
    assert chain(DpSgd(1.0, 0.0)).counted(PART) is None
    assert chain(Pruning(0.5)).counted(PART) is None


def test_a_reconstruction_is_bounded_by_what_noise_leaves():
    """A best guess at one of 10 in a game of Gaussians never beats it, and reaches it where there are two."""
    rng = np.random.default_rng(0)
    mu = 1.2
    # Two candidates of which one was sent: told apart by a threshold, when a wrong guess costs nothing more.
    sent, absent = rng.normal(mu, 1, 200_000), rng.normal(0, 1, 200_000)
    for chance in (0.1, 0.5):
        threshold = norm.isf(chance)
        assert (absent > threshold).mean() == pytest.approx(chance, abs=0.005)
        bound = mechanism_bound(chance, SampledGaussian(1 / mu))
        assert (sent > threshold).mean() == pytest.approx(bound, abs=0.005)
        assert bound == pytest.approx(norm.cdf(norm.ppf(chance) + mu))


@pytest.mark.parametrize("mechanism", [SampledGaussian(2.0), SampledGaussian(1.0, 0.3, 4)])
def test_epsilon_alone_bounds_no_better_than_its_mechanism(mechanism):
    for chance in (0.01, 0.125, 0.5):
        loose = claim_bound(chance, mechanism.epsilon(1e-5), 1e-5)
        assert chance <= mechanism_bound(chance, mechanism) <= loose <= 1


def test_bounds_at_their_ends():
    assert claim_bound(0.5, 1000.0, 1e-5) == 1
    assert claim_bound(0.0, 1000.0, 1e-5) == 1e-5
    assert mechanism_bound(1.0, SampledGaussian(1.0)) == 1
    assert claim_bound(0.25, math.log(2), 0.0) == pytest.approx(0.5)
    with pytest.raises(Misconfigured, match="chance"):
        mechanism_bound(1.5, SampledGaussian(1.0))

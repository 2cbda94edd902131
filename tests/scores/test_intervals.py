"""The bootstrap against a slow loop, scipy and the normal distribution; Wilson's interval against scipy."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, bootstrap

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.rng import generator
from fluoroscope.scores import intervals
from fluoroscope.scores.intervals import Interval, bootstrap_mean, wilson


def values(n, seed=0):
    return torch.rand(n, generator=generator(seed, "values"), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("level", [0.95, 0.5])
def test_it_is_the_loop_over_resamples(seed, level):
    given, rng = values(7, seed), generator(seed, "loop")
    means = [float(given[torch.randint(7, (7,), generator=rng)].mean()) for _ in range(200)]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    interval = bootstrap_mean(given, generator(seed, "loop"), resamples=200, level=level)
    expected = (float(given.mean()), low, high)
    assert (interval.mean, interval.low, interval.high) == pytest.approx(expected, abs=1e-12)
    assert interval.n == 7


def test_drawing_in_parts_changes_nothing(monkeypatch):
    whole = bootstrap_mean(values(30), generator(0))
    monkeypatch.setattr(intervals, "_DRAWS_AT_ONCE", 1000)
    assert bootstrap_mean(values(30), generator(0)) == whole


def test_near_scipy_and_near_the_normal_interval():
    given = values(400)
    ours = bootstrap_mean(given, generator(1), resamples=5000)
    theirs = bootstrap((given.numpy(),), np.mean, n_resamples=5000, method="percentile", rng=1).confidence_interval
    half = 1.96 * float(given.std()) / math.sqrt(400)
    for low, high in ((theirs.low, theirs.high), (ours.mean - half, ours.mean + half)):
        assert (ours.low, ours.high) == pytest.approx((low, high), abs=0.05 * half)


def test_the_same_generator_gives_the_same_interval():
    assert bootstrap_mean(values(20), generator(5)) == bootstrap_mean(values(20), generator(5))
    assert bootstrap_mean(values(20), generator(5)) != bootstrap_mean(values(20), generator(6))


def test_equal_values_leave_no_doubt():
    assert bootstrap_mean(torch.full((8,), 0.25), generator(0)) == Interval(0.25, 0.25, 0.25, 8)


def test_one_value_has_a_mean_and_no_ends():
    interval = bootstrap_mean(torch.tensor([0.5]), generator(0))
    assert (interval.mean, interval.n) == (0.5, 1)
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)


def test_no_value_has_no_mean():
    interval = bootstrap_mean(torch.tensor([]), generator(0))
    assert interval.n == 0
    assert all(map(math.isnan, (interval.mean, interval.low, interval.high)))


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_stays_in_the_mean_and_leaves_no_ends(odd):
    interval = bootstrap_mean(torch.tensor([1.0, odd, 2.0]), generator(0))
    assert interval.mean == pytest.approx(odd, nan_ok=True)
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)


@pytest.mark.parametrize(("resamples", "level"), [(0, 0.95), (1000, 95), (1000, 0), (1000, 1)])
def test_settings_out_of_range_are_named(resamples, level):
    with pytest.raises(Misconfigured, match=f"resamples = {resamples} and level = {level:g}"):
        bootstrap_mean(values(5), generator(0), resamples, level)


def test_a_matrix_is_named():
    with pytest.raises(BadInput, match=r"shape \(2, 3\)"):
        bootstrap_mean(torch.zeros(2, 3), generator(0))


@pytest.mark.parametrize("level", [0.95, 0.8])
@pytest.mark.parametrize(("successes", "n"), [(0, 1), (1, 1), (0, 20), (20, 20), (7, 20), (482, 500)])
def test_wilson_is_scipys(successes, n, level):
    ours = wilson(successes, n, level)
    theirs = binomtest(successes, n).proportion_ci(level, method="wilson")
    assert (ours.mean, ours.low, ours.high) == pytest.approx((successes / n, theirs.low, theirs.high), abs=1e-12)
    assert 0 <= ours.low <= ours.mean <= ours.high <= 1
    assert ours.n == n


def test_no_trial_has_no_share():
    interval = wilson(0, 0)
    assert interval.n == 0
    assert all(map(math.isnan, (interval.mean, interval.low, interval.high)))


@pytest.mark.parametrize(("successes", "n", "level"), [(3, 2, 0.95), (-1, 2, 0.95), (1, 2, 95)])
def test_impossible_counts_are_named(successes, n, level):
    with pytest.raises(Misconfigured, match=f"{successes} successes in {n} trials at level {level:g}"):
        wilson(successes, n, level)

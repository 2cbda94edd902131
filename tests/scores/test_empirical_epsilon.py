"""Lower bounds on epsilon: below the truth at their level, near it with many games, and Clopper-Pearson as scipy's."""

import math
from functools import partial

import pytest
import torch
from scipy.stats import binom, binomtest

from fluoroscope.defences.mechanism import SampledGaussian
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.scores.empirical_epsilon import (
    ErrorRates,
    clopper_pearson_upper,
    epsilon_at_least,
    error_rates,
    held_out_error_rates,
    midpoint,
    most_epsilon,
    noise_at_most,
    one_run_epsilon,
)

DELTA = 1e-5


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def games(mu: float, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of the best test of a Gaussian mechanism."""
    draws = torch.randn(2, count, generator=rng(seed), dtype=torch.float64)
    return draws[0] + mu, draws[1]


def any_mechanism(scores, level) -> float:
    rates = held_out_error_rates(*scores, partial(most_epsilon, delta=DELTA, level=level), level)
    return epsilon_at_least(rates, DELTA)


def gaussian(scores, level) -> float:
    rates = held_out_error_rates(*scores, midpoint, level)
    noise = noise_at_most(rates, lambda multiplier, alarms: SampledGaussian(multiplier).misses(alarms), 0.01, 100.0)
    return SampledGaussian(noise).tight_epsilon(DELTA)


@pytest.mark.parametrize(("successes", "n"), [(0, 20), (1, 20), (7, 20), (19, 20), (20, 20), (3, 1000)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.995])
def test_clopper_pearson_is_scipy_s(successes, n, level):
    exact = binomtest(successes, n, alternative="less").proportion_ci(level, method="exact").high
    assert clopper_pearson_upper(successes, n, level) == pytest.approx(exact)


def test_an_interval_of_more_successes_than_trials_is_refused():
    with pytest.raises(Misconfigured, match="21 successes in 20 trials"):
        clopper_pearson_upper(21, 20, 0.95)


def test_perfect_games_are_bounded_by_their_number():
    """No false positive in 100 games says e^epsilon is at least so much, and no more."""
    rates = error_rates(torch.ones(100), torch.zeros(100), 0.5, 0.95)
    miss = 1 - 0.025 ** (1 / 100)
    assert rates == ErrorRates(pytest.approx(miss), pytest.approx(miss), 200)
    assert epsilon_at_least(rates, 0.0) == pytest.approx(math.log((1 - miss) / miss))


def test_a_coin_proves_nothing():
    assert epsilon_at_least(ErrorRates(0.6, 0.6, 100), DELTA) == 0
    assert gaussian(games(0.0, 300, 0), 0.99) < 0.1
    assert one_run_epsilon(torch.rand(100, generator=rng()), torch.arange(100) % 2 == 0, DELTA, 50) == 0


@pytest.mark.parametrize("bound", [any_mechanism, gaussian])
@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_the_bound_stays_below_the_truth_at_its_level(bound, mu):
    """100 audits at 90 %: 20 above the truth would be a one in a thousand event, if the level were kept."""
    truth = SampledGaussian(1 / mu).tight_epsilon(DELTA)
    found = [bound(games(mu, 150, seed), 0.9) for seed in range(100)]
    assert sum(each > truth for each in found) <= binom.ppf(0.999, 100, 0.1)
    assert max(found) > 0


@pytest.mark.parametrize(("bound", "share"), [(any_mechanism, 0.6), (gaussian, 0.95)])
def test_many_games_come_near_the_truth(bound, share):
    truth = SampledGaussian(1.0).tight_epsilon(DELTA)
    assert share * truth < bound(games(1.0, 200_000, 0), 0.99) < truth


def test_the_noise_of_a_sampled_mechanism_is_found():
    """A record that enters two sums with probability a half each, of which the total is seen."""
    entered = torch.randint(0, 2, (2, 50_000), generator=rng(2)).sum(0)
    noise = math.sqrt(2) * torch.randn(2, 50_000, generator=rng(1))

    def misses(multiplier, alarms):
        return SampledGaussian(multiplier, 0.5, 2).misses(alarms)

    rates = held_out_error_rates(noise[0] + entered, noise[1], midpoint, 0.99)
    assert 1.0 <= noise_at_most(rates, misses, 0.9, 1.5) < 1.35


def test_noise_beyond_the_ends_is_the_end():
    def misses(noise, alarms):
        return SampledGaussian(noise).misses(alarms)

    assert noise_at_most(ErrorRates(0.5, 0.5, 10), misses, 0.1, 10.0) == 10.0
    assert noise_at_most(ErrorRates(1e-12, 1e-12, 10), misses, 0.5, 10.0) == pytest.approx(0.5, rel=6e-3)


def slow_one_run(right, guesses, canaries, delta, level):
    """Steinke et al. 2023, appendix D, by steps of a hundredth."""
    epsilon = 0.0
    while True:
        q = 1 / (1 + math.exp(-epsilon))
        worst, total = 0.0, 0.0
        for i in range(1, right + 1):
            total += binom.pmf(right - i, guesses, q)
            worst = max(worst, total / i)
        if binom.sf(right - 1, guesses, q) + 2 * canaries * delta * worst >= 1 - level:
            return epsilon
        epsilon += 1e-2


@pytest.mark.parametrize(("right", "guesses", "canaries"), [(40, 40, 100), (70, 80, 80), (30, 60, 100)])
def test_one_run_is_the_slow_loop(right, guesses, canaries):
    coins = torch.zeros(canaries, dtype=torch.bool)
    coins[: guesses // 2] = True  # the highest scores, all rightly said to be inside
    wrong = guesses - right
    coins[canaries - wrong :] = True  # so many of the lowest are wrongly said to be outside
    scores = -torch.arange(canaries, dtype=torch.float64)
    found = one_run_epsilon(scores, coins, DELTA, guesses, 0.95)
    assert found == pytest.approx(slow_one_run(right, guesses, canaries, DELTA, 0.95), abs=1.1e-2)


def test_one_run_of_randomised_response_stays_below_its_epsilon():
    """The mechanism that is hardest to audit: each coin is told rightly with probability e^eps / (1 + e^eps)."""
    above, epsilon = 0, 1.5
    for seed in range(100):
        coins = torch.rand(300, generator=rng(seed)) < 0.5
        told = coins ^ (torch.rand(300, generator=rng(1000 + seed)) > 1 / (1 + math.exp(-epsilon)))
        above += one_run_epsilon(told.double(), coins, 0.0, 300, 0.9) > epsilon
    assert above <= binom.ppf(0.999, 100, 0.1)


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(BadInput, match="needs two games of each kind"):
        held_out_error_rates(torch.ones(1), torch.ones(9), midpoint)
    with pytest.raises(BadInput, match="not a finite number"):
        held_out_error_rates(torch.tensor([1.0, math.nan, 1.0]), torch.ones(3), midpoint)
    with pytest.raises(BadInput, match="do not allow 5 guesses"):
        one_run_epsilon(torch.ones(4), torch.ones(4, dtype=torch.bool), DELTA, 5)

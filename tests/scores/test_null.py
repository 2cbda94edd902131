"""A guess is told apart from other patients, or it is chance."""

import math

import pytest
import torch

from fluoroscope.errors import BadInput
from fluoroscope.scores.null import against_others
from fluoroscope.scores.rdlv import rdlv
from fluoroscope.scores.similarity import ssim


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def patients(n: int, each: int = 1) -> list[torch.Tensor]:
    """Smooth pictures of one kind, every one different."""
    draws = torch.Generator().manual_seed(1)
    common = torch.rand(1, 1, 4, 4, generator=draws)
    own = torch.rand(n * each, 1, 4, 4, generator=draws)
    grown = torch.nn.functional.interpolate(0.6 * common + 0.4 * own, size=(24, 24), mode="bicubic").clamp(0, 1)
    return list(grown.view(n, each, 1, 24, 24))


def mean(images: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat(images).mean(0)


def test_exact_guesses_are_told_apart():
    images = patients(8)
    found = against_others(images, images, mean(images), rng())
    assert found.told_apart.mean == 1
    assert found.chance == pytest.approx(1 / 8)
    assert found.leak.low > 0
    assert found.p_value < 0.01
    assert all(each.all() for each in found.found)


def test_what_shows_nobody_is_at_its_null_although_it_beats_the_prior():
    """The same sharp picture for everyone, nearer to each than a flat prior is: RDLV above 0, and no leak."""
    images = patients(8)
    same = [mean(images)[None]] * 8
    flat = torch.full((1, 24, 24), 0.5)
    found = against_others(same, images, flat, rng())
    assert found.own.low > 0
    assert abs(found.leak.mean) < 0.02
    assert found.p_value > 0.5
    assert found.told_apart.mean <= 2 / 8


def test_the_numbers_are_those_of_a_plain_loop():
    images = patients(5, each=2)
    guesses = [each + 0.05 * torch.randn(each.shape, generator=rng()) for each in images]
    prior = mean(images)
    found = against_others(guesses, images, prior, rng())
    own, null, right = [], [], 0
    for i, guess in enumerate(guesses):
        table = [float(rdlv(guess, other, prior).values.mean()) for other in images]
        own.append(table[i])
        null.append(sum(table[:i] + table[i + 1 :]) / 4)
        for picture in guess:
            pairs = [(float(ssim(x[None], picture[None])), j) for j, other in enumerate(images) for x in other]
            right += max(pairs)[1] == i
    assert found.own.mean == pytest.approx(sum(own) / 5, abs=1e-4)
    assert found.null.mean == pytest.approx(sum(null) / 5, abs=1e-4)
    assert found.leak.mean == pytest.approx((sum(own) - sum(null)) / 5, abs=1e-4)
    assert found.told_apart.mean == right / 10


def test_the_p_value_is_uniform_where_nothing_leaks():
    images, prior = patients(6), mean(patients(6))
    values = []
    for seed in range(40):
        draws = torch.Generator().manual_seed(seed)
        guesses = [(prior + 0.1 * torch.randn(1, 1, 24, 24, generator=draws)).clamp(0, 1) for _ in images]
        values.append(against_others(guesses, images, prior, draws).p_value)
    assert 0.3 < sum(values) / 40 < 0.7
    assert sum(value <= 0.1 for value in values) <= 9


def test_one_victim_is_compared_with_others_about_whom_nothing_was_guessed():
    images = patients(20)
    found = against_others(images[:1], images[:1], mean(images), rng(), others=images[1:])
    assert found.p_value == pytest.approx(1 / 20, abs=0.02)
    assert found.told_apart.mean == 1
    assert math.isnan(found.leak.low), "one victim has no spread"
    with pytest.raises(BadInput, match="give images of other patients too"):
        against_others(images[:1], images[:1], mean(images), rng())


def test_a_diverged_guess_is_nobody():
    images = patients(4)
    broken = [torch.full_like(images[0], math.nan), *images[1:]]
    found = against_others(broken, images, mean(images), rng())
    assert found.told_apart.mean == 3 / 4
    assert not found.found[0].any()
    assert math.isfinite(found.leak.mean)

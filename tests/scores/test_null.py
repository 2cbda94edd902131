"""A guess is told apart from other patients, or it is chance."""

import math
from itertools import combinations

import pytest
import torch

from fluoroscope.errors import BadInput
from fluoroscope.scores.null import LINE_UP, against_others
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
    assert math.isnan(found.leak.low), "one guess has no spread"
    with pytest.raises(BadInput, match="give images of other patients too"):
        against_others(images[:1], images[:1], mean(images), rng())


def test_a_diverged_guess_is_nobody():
    images = patients(4)
    broken = [torch.full_like(images[0], math.nan), *images[1:]]
    found = against_others(broken, images, mean(images), rng())
    assert found.told_apart.mean == 3 / 4
    assert not found.found[0].any()
    assert math.isfinite(found.leak.mean)


def test_one_victim_of_several_images_is_judged_image_by_image():
    """Two sets alone would never be significant; the images in them are."""
    client, held_out = patients(2, each=8)
    found = against_others([client], [client], mean([client, held_out]), rng(), others=[held_out])
    assert found.p_value < 0.01
    assert found.leak.low > 0
    assert found.leak.n == 8
    sharp = mean([client, held_out])[None].expand(8, -1, -1, -1)
    nobody = against_others([sharp], [client], torch.full((1, 24, 24), 0.5), rng(), others=[held_out])
    assert nobody.p_value > 0.05


def test_the_p_value_of_one_victim_is_uniform_where_nothing_leaks():
    values = []
    for seed in range(40):
        draws = torch.Generator().manual_seed(seed)
        order = torch.randperm(16, generator=draws)
        images = torch.cat(patients(16))[order]
        guesses = torch.cat(patients(24))[16:20]
        prior = images.mean(0)
        values.append(against_others([guesses], [images[:4]], prior, draws, others=images[4:].split(4)).p_value)
    assert 0.3 < sum(values) / 40 < 0.7
    assert sum(value <= 0.1 for value in values) <= 9


def test_a_line_up_is_every_choice_of_three_others():
    images = patients(7)
    guesses = [(each + 0.3 * torch.randn(each.shape, generator=rng())).clamp(0, 1) for each in images]
    found = against_others(guesses, images, mean(images), rng())
    won = []
    for i, guess in enumerate(guesses):
        likeness = [float(ssim(other, guess)) for other in images]
        rest = [likeness[j] for j in range(7) if j != i]
        won.append(sum(max(three) < likeness[i] for three in combinations(rest, LINE_UP - 1)) / math.comb(6, 3))
    assert 0 < sum(won) < 7, "some are told apart, and not all"
    assert found.line_up.mean == pytest.approx(sum(won) / 7)
    assert found.line_up_chance == 1 / 4


def test_who_is_level_shares_the_win():
    images = patients(3) * 2  # everybody twice
    found = against_others(images, images, mean(images), rng())
    # The own one wins alone in 4 of 10 line-ups, and shares the win with its copy in 6.
    assert found.line_up.mean == pytest.approx(0.4 + 0.6 / 2)


def test_an_attack_that_gave_up_has_guessed_the_prior():
    images = patients(8)
    quiet = [i < 3 for i in range(8)]
    found = against_others(images, images, mean(images), rng(), gave_up=quiet)
    told = against_others(images, images, mean(images), rng())
    assert found.told_apart.mean == 5 / 8
    assert [bool(each.any()) for each in found.found] == [not each for each in quiet]
    assert found.line_up.mean == pytest.approx((5 + 3 / 4) / 8)
    assert found.leak.mean < told.leak.mean
    nothing = against_others(images, images, mean(images), rng(), gave_up=[True] * 8)
    assert (nothing.own.mean, nothing.leak.mean, nothing.p_value) == (0.0, 0.0, 1.0)
    assert nothing.line_up.high == 1 / 4

"""Every score: pure, the same whatever the order, ideal for identical images, and no better for worse ones."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import fluoroscope.scores
from fluoroscope.data.phantoms.font import glyph
from fluoroscope.scores.baselines import random_image
from fluoroscope.scores.downstream import downstream
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
    proven_epsilon,
)
from fluoroscope.scores.identifiability import chance, identify, identify_images
from fluoroscope.scores.intervals import bootstrap_mean, wilson
from fluoroscope.scores.label_counts import score_mixes
from fluoroscope.scores.legibility import Writing, cells, dot_size, legibility, read
from fluoroscope.scores.matching import match
from fluoroscope.scores.null import against_others
from fluoroscope.scores.permutations import permutation_p_value
from fluoroscope.scores.projection import tsne
from fluoroscope.scores.rdlv import mean_rdlv, rdlv
from fluoroscope.scores.reconstruction import score
from fluoroscope.scores.recovery import recovery
from fluoroscope.scores.roc import roc, true_positives_at
from fluoroscope.scores.similarity import decibels, mse, mse_matrix, psnr, ssim, ssim_matrix
from fluoroscope.scores.utility import utility

N, SIDE = 6, 32
PRIOR = torch.full((1, SIDE, SIDE), 0.5)


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def originals() -> Tensor:
    """Smooth images that are all different."""
    return F.interpolate(torch.rand((N, 1, 8, 8), generator=rng()), size=(SIDE, SIDE), mode="bilinear")


def noised(amount: float) -> Tensor:
    noise = torch.randn((N, 1, SIDE, SIDE), generator=rng())
    return (originals() + amount * noise).clamp(0, 1)


def embedded(images: Tensor) -> Tensor:
    return images.flatten(1) - 0.5


@dataclass(frozen=True)
class ImageScore:
    """A score of guesses against the images that they should have been."""

    call: Callable[[Tensor, Tensor], Any]
    """The result, as the function gives it."""
    each: Callable[[Any], Tensor]
    """A number per original, in its order; NaN for one that has none."""
    leakier: int
    """1 where higher is leakier, -1 where lower is."""
    ideal: float | None
    """Of identical images; None where it depends on the image."""
    by_pairs: bool = False
    """Guesses are compared with their partners: their order means something."""


def _diagonal(matrix: Tensor) -> Tensor:
    return matrix.diagonal()


def _rdlv(guesses: Tensor, truth: Tensor) -> Any:
    return rdlv(guesses, truth, PRIOR)


def _by_nearest(found: Any) -> Tensor:
    """Per original, of whichever reconstruction is nearest to it."""
    values = torch.full((N,), math.nan, dtype=torch.float64)
    for nearest, value in zip(found.nearest.tolist(), found.values.tolist(), strict=True):
        if not math.isnan(value):
            values[nearest] = value
    return values


def _hits(found: Any) -> Tensor:
    values = torch.full((N,), math.nan, dtype=torch.float64)
    for hit, similarity in zip(found.hit.tolist(), found.hit_similarity.tolist(), strict=True):
        if hit >= 0:
            values[hit] = similarity
    return values


SCORES = {
    "ssim": ImageScore(ssim, lambda v: v, 1, 1.0, by_pairs=True),
    "psnr": ImageScore(psnr, lambda v: v, 1, math.inf, by_pairs=True),
    "mse": ImageScore(mse, lambda v: v, -1, 0.0, by_pairs=True),
    "ssim_matrix": ImageScore(ssim_matrix, _diagonal, 1, 1.0, by_pairs=True),
    "mse_matrix": ImageScore(mse_matrix, _diagonal, -1, 0.0, by_pairs=True),
    "decibels": ImageScore(lambda a, b: decibels(mse(a, b)), lambda v: v, 1, math.inf, by_pairs=True),
    "rdlv": ImageScore(_rdlv, _by_nearest, 1, None),
    "score": ImageScore(
        lambda guesses, truth: score(guesses, truth, PRIOR),
        lambda rows: torch.tensor([row.ssim for row in rows], dtype=torch.float64),
        1,
        1.0,
    ),
    "recovery": ImageScore(recovery, lambda found: found.ssim, 1, 1.0),
    "identify": ImageScore(
        lambda guesses, truth: identify(embedded(guesses), embedded(truth), torch.ones(N, dtype=torch.bool)),
        _hits,
        1,
        1.0,
    ),
    "identify_images": ImageScore(
        lambda guesses, truth: identify_images(guesses, truth, torch.ones(N, dtype=torch.bool), embedded),
        _hits,
        1,
        1.0,
    ),
}
OTHERS: dict[str, Callable[[], Any]] = {
    "random_image": lambda: random_image(originals(), rng(), 50),
    "downstream": lambda: downstream(LOGITS, LABELS),
    "chance": lambda: chance(3, 10, 2),
    "bootstrap_mean": lambda: bootstrap_mean(VALUES, rng()),
    "wilson": lambda: wilson(3, 7),
    "mean_rdlv": lambda: mean_rdlv(VALUES, rng()),
    "match": lambda: match(torch.outer(VALUES, VALUES), higher_is_better=True),
    "tsne": lambda: tsne(embedded(originals()), rng()),
    "permutation_p_value": lambda: permutation_p_value(3, 20),
    "roc": lambda: roc(VALUES, VALUES - 0.2, rng(), 50),
    "true_positives_at": lambda: true_positives_at(roc(VALUES, VALUES - 0.2, rng(), 50), 0.5),
    "clopper_pearson_upper": lambda: clopper_pearson_upper(3, 7, 0.95),
    "error_rates": lambda: error_rates(VALUES, VALUES - 0.2, 0.5),
    "held_out_error_rates": lambda: held_out_error_rates(VALUES, VALUES - 0.2, midpoint),
    "proven_epsilon": lambda: proven_epsilon(VALUES.numpy(), VALUES.numpy(), 1e-5),
    "epsilon_at_least": lambda: epsilon_at_least(ErrorRates(0.1, 0.2, 10), 1e-5),
    "midpoint": lambda: midpoint(VALUES, VALUES - 0.2),
    "most_epsilon": lambda: most_epsilon(VALUES, VALUES - 0.2, 1e-5),
    "noise_at_most": lambda: noise_at_most(ErrorRates(0.1, 0.2, 10), lambda noise, alarms: noise - alarms, 0.1, 1.0),
    "one_run_epsilon": lambda: one_run_epsilon(VALUES, LABELS == 1, 1e-5, 4),
    "utility": lambda: utility(LOGITS, LABELS),
    "against_others": lambda: against_others(
        [noised(0.1)[:1], noised(0.1)[1:2]], [originals()[:1], originals()[1:2]], originals().mean(0), rng()
    ),
    "score_mixes": lambda: score_mixes(LOGITS.softmax(1), LOGITS.flip(0).softmax(1), PUBLIC, LABELS, rng()),
    "read": lambda: read(originals()[0], WRITING, glyph),
    "dot_size": lambda: dot_size(WRITING, glyph),
    "cells": lambda: cells(WRITING, glyph),
    "legibility": lambda: legibility([read(image, WRITING, glyph) for image in originals()]),
}
"""What is made of scores, of a model's answers, or of writing."""
VALUES = torch.rand(N, generator=rng(), dtype=torch.float64)
LABELS = torch.arange(N) % 2
LOGITS = torch.randn((N, 2), generator=rng())
PUBLIC = torch.tensor([0.5, 0.5])
WRITING = Writing(("AB",), 1, 1, len(glyph("A")) + 2)
every_score = pytest.mark.parametrize("name", SCORES)


def plain(value: Any) -> Any:
    """A result as nested lists, to compare; NaN is like itself."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if is_dataclass(value):
        return [plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def test_the_table_has_every_public_score():
    found = set()
    for module in iter_modules([str(Path(fluoroscope.scores.__file__).parent)]):
        inside = vars(import_module(f"fluoroscope.scores.{module.name}")).values()
        found |= {
            each.__name__
            for each in inside
            if inspect.isfunction(each)
            and not each.__name__.startswith("_")
            and each.__module__ == f"fluoroscope.scores.{module.name}"
        }
    assert found == {*SCORES, *OTHERS}


@every_score
def test_it_is_pure(name):
    guesses, truth = noised(0.1), originals()
    one, two = (plain(SCORES[name].call(guesses, truth)) for _ in range(2))
    assert one == two
    assert torch.equal(guesses, noised(0.1))
    assert torch.equal(truth, originals())


@pytest.mark.parametrize("name", OTHERS)
def test_the_same_twice(name):
    before = [each.clone() for each in (VALUES, LOGITS, LABELS)]
    assert plain(OTHERS[name]()) == plain(OTHERS[name]())
    assert all(torch.equal(a, b) for a, b in zip(before, (VALUES, LOGITS, LABELS), strict=True))


@every_score
def test_a_number_for_each_original(name):
    found = SCORES[name].each(SCORES[name].call(noised(0.01), originals()))
    assert found.shape == (N,)
    assert found.is_floating_point()
    assert found.isfinite().all()


@every_score
def test_the_order_of_guesses_means_nothing_where_there_are_no_partners(name):
    """Where there are, pairs may come in any order."""
    score, order = SCORES[name], torch.tensor([3, 0, 5, 1, 4, 2])
    usual = score.each(score.call(noised(0.05), originals()))
    if score.by_pairs:
        turned = score.each(score.call(noised(0.05)[order], originals()[order]))
        torch.testing.assert_close(turned, usual[order])
    else:
        torch.testing.assert_close(score.each(score.call(noised(0.05)[order], originals())), usual)


@every_score
def test_one_image_of_nan_spoils_no_other(name):
    score, guesses = SCORES[name], noised(0.05)
    usual = score.each(score.call(guesses, originals()))
    guesses[2] = math.nan
    found = score.each(score.call(guesses, originals()))
    others = [0, 1, 3, 4, 5]
    torch.testing.assert_close(found[others], usual[others])
    assert found[2].isnan() or score.leakier * float(found[2]) <= score.leakier * float(usual[2])


@every_score
def test_nearer_images_score_leakier(name):
    score = SCORES[name]
    far, near, exact = (
        score.leakier * score.each(score.call(noised(amount), originals())) for amount in (0.1, 0.03, 0.0)
    )
    assert (near > far).all()
    assert (exact > near).all()


@every_score
def test_identical_images_are_ideal(name):
    score = SCORES[name]
    found = score.each(score.call(originals(), originals()))
    if score.ideal is None:  # RDLV: 1 / SSIM(T, P) - 1
        found, ideal = found + 1, 1 / ssim(originals(), PRIOR.expand(N, -1, -1, -1))
        torch.testing.assert_close(found, ideal, check_dtype=False)
    else:
        torch.testing.assert_close(found, torch.full_like(found, score.ideal))

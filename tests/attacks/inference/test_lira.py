"""LiRA against a slow loop of scipy's normal distribution."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from fluoroscope.attacks.inference.likelihood_ratio import Shadows, confidence, confidences, offline, online
from fluoroscope.attacks.inference.seen_model import SeenModel
from fluoroscope.attacks.inference.shadows import halves, nowhere, shadow_sets
from fluoroscope.errors import Misconfigured
from fluoroscope.types import LabelledImages
from tests.attacks.inference.one_layer import records, sent


@pytest.fixture
def played():
    """Observed confidences and shadows of five candidates."""
    rng = torch.Generator().manual_seed(0)
    inside = halves(5, 8, rng)
    values = torch.randn(8, 5, generator=rng, dtype=torch.float64) + 2 * inside
    return torch.randn(5, generator=rng, dtype=torch.float64), Shadows(values, inside)


def fitted(shadows, kind, candidate, pooled):
    columns = [shadows.confidences[shadows.inside[:, j] == kind, j].numpy() for j in range(shadows.inside.shape[1])]
    mean = np.mean(columns[candidate])
    if not pooled:
        return mean, np.std(columns[candidate], ddof=1)
    squares = sum(((column - np.mean(column)) ** 2).sum() for column in columns)
    return mean, math.sqrt(squares / sum(len(column) - 1 for column in columns))


@pytest.mark.parametrize("pooled", [True, False])
def test_the_ratio_is_that_of_a_slow_loop(played, pooled):
    observed, shadows = played
    for j, value in enumerate(observed.tolist()):
        inside, outside = (norm(*fitted(shadows, kind, j, pooled)) for kind in (True, False))
        assert online(observed, shadows, pooled)[j] == pytest.approx(inside.logpdf(value) - outside.logpdf(value))
        assert norm.cdf(offline(observed, shadows, pooled)[j]) == pytest.approx(outside.cdf(value))


def test_the_confidence_is_the_logit_of_the_probability():
    outputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 3, 0, 1])
    p = outputs.softmax(1)[range(6), labels]
    torch.testing.assert_close(confidence(outputs, labels), (p / (1 - p)).log())


def test_a_sure_model_is_not_rounded():
    """p is 1 in float64 for both of them."""
    found = confidence(torch.tensor([[100.0, 0.0], [200.0, 0.0], [-900.0, 0.0]]), torch.tensor([0, 0, 0]))
    assert found.tolist() == [100.0, 200.0, -900.0]


def test_the_confidence_of_a_model():
    found = confidences(SeenModel.of(sent(2.0)), records([[1.0, 0.0], [0.0, 3.0]], [0, 0]))
    assert found.tolist() == pytest.approx([2.0, -6.0])


def test_higher_confidence_than_without_it_is_membership():
    rng = torch.Generator().manual_seed(2)
    inside = halves(40, 16, rng)
    values = torch.randn(16, 40, generator=rng, dtype=torch.float64) + 3 * inside
    shadows = Shadows(values, inside)
    member, stranger = torch.full((40,), 3.0, dtype=torch.float64), torch.zeros(40, dtype=torch.float64)
    for attack in (online, offline):
        assert (attack(member, shadows) > attack(stranger, shadows)).all()
    assert (online(member, shadows) > 0).all()
    assert (online(stranger, shadows) < 0).all()


def test_shadows_that_agree_to_the_last_digit_give_finite_scores():
    rng = torch.Generator().manual_seed(3)
    shadows = Shadows(torch.ones(4, 3, dtype=torch.float64), halves(3, 4, rng))
    for attack in (online, offline):
        assert attack(torch.zeros(3, dtype=torch.float64), shadows).isfinite().all()


def test_each_candidate_is_in_half_of_the_shadows():
    inside = halves(7, 10, torch.Generator().manual_seed(0))
    assert inside.sum(0).tolist() == [5] * 7
    assert inside.sum(1).tolist() == [3, 4] * 5
    assert len(inside.unique(dim=0)) > 4


def test_offline_shadows_hold_none_of_them():
    rng = torch.Generator().manual_seed(0)
    assert not nowhere(7, 4, rng).any()
    shadows = Shadows(torch.randn(4, 7, generator=rng, dtype=torch.float64), nowhere(7, 4, rng))
    observed = torch.zeros(7, dtype=torch.float64)
    for j in range(7):
        mean, deviation = fitted(shadows, False, j, pooled=True)
        assert offline(observed, shadows)[j] == pytest.approx(-mean / deviation)


def test_a_shadow_holds_its_candidates_and_fills_up_from_the_pool():
    rng = torch.Generator().manual_seed(0)
    candidates = LabelledImages(torch.arange(6.0).view(6, 1, 1, 1), torch.arange(6))
    pool = LabelledImages(100 + torch.arange(9.0).view(9, 1, 1, 1), 100 + torch.arange(9))
    inside = halves(6, 4, rng)
    for chosen, made in zip(inside, shadow_sets(candidates, pool, inside, 5, rng), strict=True):
        assert len(made) == 5
        assert made.labels[:3].tolist() == chosen.nonzero().flatten().tolist()
        assert len(set(made.labels[3:].tolist())) == 2
        assert (made.labels[3:] >= 100).all()
        assert torch.equal(made.images.flatten().long(), made.labels)


def test_a_small_pool_comes_again():
    rng = torch.Generator().manual_seed(0)
    candidates = LabelledImages(torch.zeros(4, 1, 1, 1), torch.zeros(4, dtype=torch.int64))
    pool = LabelledImages(torch.ones(3, 1, 1, 1), torch.arange(3))
    (made,) = shadow_sets(candidates, pool, torch.zeros(1, 4, dtype=torch.bool), 8, rng)
    assert sorted(made.labels.bincount().tolist()) == [2, 3, 3]


def test_what_cannot_be_played_is_said():
    rng = torch.Generator().manual_seed(0)
    with pytest.raises(Misconfigured, match="not 5"):
        halves(4, 5, rng)
    with pytest.raises(Misconfigured, match="a spread needs 2"):
        online(torch.zeros(2), Shadows(torch.zeros(3, 2), torch.tensor([[True, True], [False, True], [False, True]])))
    with pytest.raises(Misconfigured, match="one class"):
        confidence(torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64))
    none = LabelledImages(torch.zeros(0, 1, 1, 1), torch.zeros(0, dtype=torch.int64))
    with pytest.raises(Misconfigured, match="larger pool"):
        list(shadow_sets(LabelledImages(torch.zeros(4, 1, 1, 1), torch.zeros(4)), none, halves(4, 4, rng), 3, rng))

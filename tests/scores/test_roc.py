"""ROC, AUC and its interval, against counting, simulation and known ends."""

import numpy as np
import pytest
import torch

from fluoroscope.errors import BadInput
from fluoroscope.scores.roc import roc, true_positives_at


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_auc_counts_pairs():
    yes, no = torch.tensor([0.1, 0.5, 0.5, 2.0]), torch.tensor([0.0, 0.5, 1.0])
    pairs = [(a > b) + 0.5 * (a == b) for a in yes.tolist() for b in no.tolist()]
    found = roc(yes, no, rng())
    assert found.auc.mean == pytest.approx(sum(pairs) / 12)
    assert found.auc.low < found.auc.mean < found.auc.high
    thresholds = sorted({*yes.tolist(), *no.tolist()})
    best = max(float((yes >= t).float().mean() - (no >= t).float().mean()) for t in thresholds)
    assert found.advantage == pytest.approx(best)


def test_a_perfect_attacker_with_few_games_is_not_certain():
    few, many = (roc(torch.ones(n), torch.zeros(n), rng()).auc for n in (4, 100))
    assert few.mean == many.mean == few.high == 1.0
    assert few.low < 0.75 < 0.95 < many.low
    wrong = roc(torch.zeros(4), torch.ones(4), rng()).auc
    assert (wrong.low, wrong.high) == (0.0, pytest.approx(1 - few.low))


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """Normal scores one standard deviation apart have an AUC of 0.760."""
    truth, hits = 0.7602, 0
    for seed in range(300):
        draw = torch.randn(2, 12, generator=rng(seed), dtype=torch.float64)
        interval = roc(draw[0] + 1, draw[1], rng(), permutations=1).auc
        hits += interval.low <= truth <= interval.high
    assert 0.92 <= hits / 300 <= 0.99


def test_chance_has_even_p_values_and_a_real_difference_small_ones():
    """Under chance a p-value lies below a tenth one time in ten."""
    draws = [torch.randn(2, 10, generator=rng(seed)) for seed in range(200)]
    p_values = np.array([roc(d[0], d[1], rng(1), permutations=200).p_value for d in draws])
    assert 0.05 <= (p_values < 0.1).mean() <= 0.16
    assert roc(torch.arange(5.0, 10.0), torch.arange(5.0), rng()).p_value < 0.01


def test_the_rate_at_few_false_positives():
    curve = roc(torch.tensor([3.0, 2.0, 0.0, 0.0]), torch.tensor([1.0, 0.5, 0.2, 2.5]), rng())
    assert true_positives_at(curve, 0.0) == 0.25
    assert true_positives_at(curve, 0.25) == 0.5


def test_one_kind_alone_or_a_diverged_score_is_refused():
    with pytest.raises(BadInput, match="both kinds"):
        roc(torch.ones(2), torch.ones(0), rng())
    with pytest.raises(BadInput, match="finite"):
        roc(torch.ones(2), torch.tensor([float("nan")]), rng())

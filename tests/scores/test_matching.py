"""The assignment against every permutation."""

import itertools
import math

import pytest
import torch

from fluoroscope.errors import BadInput
from fluoroscope.scores.matching import match


def best_total(scores, best):
    """The best total over all ways to pair the smaller side."""
    rows, columns = scores.shape
    if rows > columns:
        return best_total(scores.T, best)
    ways = itertools.permutations(range(columns), rows)
    return best(float(scores[range(rows), list(way)].sum()) for way in ways)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [(5, 5), (3, 6), (6, 3), (1, 4), (1, 1)])
@pytest.mark.parametrize(("higher_is_better", "best"), [(True, max), (False, min)])
def test_no_permutation_does_better(shape, seed, higher_is_better, best):
    scores = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    matching = match(scores, higher_is_better)
    assert len(matching) == min(shape)
    assert len(set(matching.originals.tolist())) == len(set(matching.reconstructions.tolist())) == len(matching)
    assert matching.scores.tolist() == scores[matching.reconstructions, matching.originals].tolist()
    assert float(matching.scores.sum()) == pytest.approx(best_total(scores, best))


def test_a_shuffle_is_undone():
    order = torch.tensor([3, 0, 2, 1])
    assert match(torch.eye(4)[order], higher_is_better=True).originals.tolist() == order.tolist()
    assert match(1 - torch.eye(4)[order], higher_is_better=False).originals.tolist() == order.tolist()


def test_the_greedy_choice_is_not_taken():
    """The first reconstruction gives up its best original, so that the second keeps its only one."""
    matching = match(torch.tensor([[0.9, 0.8], [0.85, 0.1]]), higher_is_better=True)
    assert matching.originals.tolist() == [1, 0]


def test_exact_recoveries_outweigh_every_finite_score():
    psnr = torch.tensor([[math.inf, 50.0, 60.0], [10.0, 5.0, 1e6], [math.inf, math.inf, 20.0]])
    matching = match(psnr, higher_is_better=True)
    assert matching.originals.tolist() == [0, 2, 1]
    assert matching.scores.tolist() == [math.inf, 1e6, math.inf]


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_a_diverged_reconstruction_takes_what_is_left(higher_is_better):
    sign = 1 if higher_is_better else -1
    scores = sign * torch.tensor([[math.nan, math.nan, math.nan], [0.9, 0.1, 0.2], [0.8, 0.7, 0.1]])
    matching = match(scores, higher_is_better)
    assert matching.originals.tolist() == [2, 0, 1]
    assert matching.scores.isnan().tolist() == [True, False, False]
    fewer = match(scores[:, :2], higher_is_better)
    assert fewer.reconstructions.tolist() == [1, 2]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.5])
def test_scores_that_tell_nothing_still_pair(value):
    assert len(match(torch.full((3, 2), value), higher_is_better=True)) == 2


def test_nothing_to_pair():
    matching = match(torch.zeros(0, 4), higher_is_better=True)
    assert len(matching) == 0
    assert matching.originals.dtype == torch.int64


def test_a_list_of_scores_is_named():
    with pytest.raises(BadInput, match=r"shape \(3,\)"):
        match(torch.zeros(3), higher_is_better=True)

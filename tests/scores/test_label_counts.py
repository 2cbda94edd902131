"""Scores of guessed class mixes, by hand and by every permutation."""

from itertools import permutations

import pytest
import torch

from fluoroscope.errors import BadInput
from fluoroscope.scores.label_counts import score_mixes

TRUTH = torch.tensor([[1.0, 0.0], [0.2, 0.8], [0.5, 0.5], [0.0, 1.0]])
EVEN = torch.tensor([0.5, 0.5])


def rng():
    return torch.Generator().manual_seed(0)


def test_errors_are_those_of_a_slow_loop():
    guess = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5], [0.3, 0.7]])
    found = score_mixes(guess, TRUTH, EVEN, torch.zeros(4), rng())
    assert found.error.mean == pytest.approx((0.1 + 0.2 + 0.0 + 0.3) / 4)
    assert found.public.mean == pytest.approx((0.5 + 0.3 + 0.0 + 0.5) / 4)
    assert found.gain.mean == pytest.approx(found.public.mean - found.error.mean)


@pytest.mark.parametrize("groups", [[0, 0, 0, 0], [0, 0, 1, 1]])
def test_the_p_value_is_that_of_all_orders_within_groups(groups):
    guess = torch.tensor([[0.8, 0.2], [0.4, 0.6], [0.6, 0.4], [0.1, 0.9]])
    found = score_mixes(guess, TRUTH, EVEN, torch.tensor(groups), rng())
    seen = (guess - TRUTH).abs().mean(1).sum()
    allowed = [o for o in permutations(range(4)) if all(groups[i] == groups[j] for i, j in enumerate(o))]
    reached = [float((guess - TRUTH[list(o)]).abs().mean(1).sum()) <= float(seen) + 1e-6 for o in allowed]
    assert found.p_value == pytest.approx(sum(reached) / len(reached), abs=0.03)


def test_guessing_the_public_mix_gains_nothing():
    found = score_mixes(EVEN.expand(4, 2), TRUTH, EVEN, torch.zeros(4), rng())
    assert found.gain.mean == 0
    assert found.p_value == 1


def test_what_does_not_fit_together_is_said():
    with pytest.raises(BadInput, match="as many true shares"):
        score_mixes(TRUTH, TRUTH[:2], EVEN, torch.zeros(4), rng())

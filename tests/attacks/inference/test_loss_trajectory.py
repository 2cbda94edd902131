"""The trajectory of a record's loss, on models whose losses can be written down."""

import math

import numpy as np
import pytest
import torch

from fluoroscope.attacks.inference.loss_trajectory import LossTrajectory, slopes
from fluoroscope.errors import Misconfigured
from tests.attacks.inference.one_layer import records, rng, sent


def loss(margin):
    """Cross-entropy of two logits that differ by the margin."""
    return math.log1p(math.exp(-margin))


def test_slopes_are_those_of_a_library():
    values = torch.randn(6, 4, generator=rng(), dtype=torch.float64)
    theirs = np.polyfit(np.arange(6), values.numpy(), 1)[0]
    assert slopes(values).numpy() == pytest.approx(theirs)


def test_one_round_is_by_how_much_it_lowered_the_loss():
    asked = records([[2.0, 0.0], [0.0, 2.0]], [0, 0])
    found = LossTrajectory().run([sent(1.0)], asked, rng())
    assert found[0].tolist() == pytest.approx([loss(0) - loss(2), loss(0) - loss(-2)])


def test_several_rounds_of_a_client_are_one_line():
    """Received with gain 0, sent with 1, then with 3."""
    asked = records([[2.0, 0.0]], [0])
    found = LossTrajectory().run([sent(1.0), sent(3.0, before=1.0)], asked, rng())
    assert found.shape == (2, 1)
    assert found[1].tolist() == pytest.approx([(loss(0) - loss(6)) / 2])


def test_a_record_that_no_round_touched_scores_0():
    """However low its loss is: the last loss alone would take an easy stranger for a member."""
    asked = records([[0.0, 0.0], [9.0, 0.0]], [0, 0])
    untouched = sent(1.0, before=1.0)
    assert LossTrajectory().run([untouched, untouched], asked, rng()).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(Misconfigured, match="no observation"):
        LossTrajectory().run([], asked, rng())

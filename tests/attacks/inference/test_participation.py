"""P3's difference, by hand."""

import math

import pytest
import torch

from fluoroscope.attacks.inference.participation import Difference, difference, participation_score
from fluoroscope.errors import Misconfigured
from fluoroscope.types import LabelledImages, RoundView
from tests.attacks.inference.one_layer import NETWORK, records, state


def view(aggregated, gain=1.0, number=1):
    return RoundView(number, NETWORK, state(gain), {"loss": aggregated})


def test_the_difference_is_p3s():
    """Logits (1, 0) and (0, 0) of class 0: losses log(1 + 1/e) and log 2."""
    shadow = records([[1.0, 0.0], [0.0, 0.0]], [0, 0])
    target = (math.log1p(math.exp(-1)) + math.log(2)) / 2
    found = difference(view(0.25), shadow)
    assert found.target == pytest.approx(target)
    assert found.aggregated == 0.25
    assert found.percent == pytest.approx(100 * (target - 0.25) / target)


def test_p3s_own_numbers():
    """Table 9, FedAvg without privacy: 1.032, 1.182, 12.719; it was made from unrounded losses."""
    assert Difference(1.032, 1.182).percent == pytest.approx(12.719, abs=0.05)


def test_a_model_that_fits_the_target_scores_higher():
    shadow = records([[1.0, 0.0]], [0])
    assert participation_score([view(0.5, gain=3)], shadow) > participation_score([view(0.5, gain=1)], shadow)


def test_several_rounds_count_alike():
    shadow = records([[1.0, 0.0], [0.0, 2.0]], [0, 1])
    rounds = [view(0.5), view(0.3, gain=2, number=2)]
    each = [participation_score([one], shadow) for one in rounds]
    assert participation_score(rounds, shadow) == pytest.approx(sum(each) / 2)


def test_an_attacker_without_images_is_told_so():
    with pytest.raises(Misconfigured, match="shadow set is empty"):
        difference(view(0.5), LabelledImages(torch.zeros(0, 1, 2, 2), torch.zeros(0, dtype=torch.int64)))

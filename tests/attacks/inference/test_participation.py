"""P3's difference, by hand."""

import math
from dataclasses import replace

import pytest
import torch

from fluoroscope.attacks.inference import INFERENCE_ATTACKS
from fluoroscope.attacks.inference.participation import Difference, LossDifference
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.types import CrossEntropy, LabelledImages
from tests.attacks.inference.one_layer import TRAINING, records, rng, sent, told

PARTICIPATION = INFERENCE_ATTACKS.get("participation")


def difference(seen, shadow):
    (found,) = LossDifference().differences([seen], shadow)
    return found


def test_the_difference_is_p3s():
    """Logits (1, 0) and (0, 0) of class 0: losses log(1 + 1/e) and log 2."""
    shadow = records([[1.0, 0.0], [0.0, 0.0]], [0, 0])
    target = (math.log1p(math.exp(-1)) + math.log(2)) / 2
    found = difference(told(0.25), shadow)
    assert found.target == pytest.approx(target)
    assert found.aggregated == 0.25
    assert found.percent == pytest.approx(100 * (target - 0.25) / target)
    assert PARTICIPATION.run([told(0.25)], shadow, rng()).item() == pytest.approx(math.log(0.25 / target))


def test_p3s_own_numbers():
    """Table 9, FedAvg without privacy: 1.032, 1.182, 12.719; it was made from unrounded losses."""
    assert Difference(1.032, 1.182).percent == pytest.approx(12.719, abs=0.05)


def test_a_model_that_fits_the_target_scores_higher():
    fits, does_not = PARTICIPATION.run([told(0.5, gain=3), told(0.5, gain=1)], records([[1.0, 0.0]], [0]), rng())
    assert fits > does_not


def test_each_round_is_a_row():
    shadow = records([[1.0, 0.0], [0.0, 2.0]], [0, 1])
    rounds = [told(0.5), told(0.3, gain=2, number=2)]
    each = torch.cat([PARTICIPATION.run([one], shadow, rng()) for one in rounds])
    assert torch.equal(PARTICIPATION.run(rounds, shadow, rng()), each)
    assert each.shape == (2, 1)


def test_the_losses_that_are_compared_are_of_one_kind():
    """The server's is plain cross-entropy, so a smoothed training is not a reason to be worse on the target."""
    shadow, smoothed = records([[3.0, 0.0]], [0]), replace(TRAINING, loss=CrossEntropy(label_smoothing=0.5))
    assert difference(told(0.5), shadow) == difference(told(0.5, training=smoothed), shadow)


def test_an_attacker_without_images_is_told_so():
    with pytest.raises(Misconfigured, match="shadow set is empty"):
        difference(told(0.5), LabelledImages(torch.zeros(0, 1, 2, 2), torch.zeros(0, dtype=torch.int64)))


def test_a_round_of_which_nothing_is_told_cannot_be_compared():
    shadow = records([[1.0, 0.0]], [0])
    for silent in (sent(1.0), replace(told(0.5), metrics={"accuracy": 0.9})):
        with pytest.raises(Unsupported, match="the loss that the server tells"):
            PARTICIPATION.run([silent], shadow, rng())

"""Utility against hand counts and scikit-learn."""

import pytest
import torch
from sklearn.metrics import roc_auc_score

from fluoroscope.scores.utility import utility


def test_counts_by_hand():
    guess = torch.tensor([0, 0, 1, 1, 2, 2])
    truth = torch.tensor([0, 1, 1, 1, 2, 0])
    scored = utility(torch.eye(3)[guess] * 5, truth)
    assert scored["accuracy"] == pytest.approx(4 / 6)
    assert scored["precision"] == pytest.approx((1 / 2 + 2 / 2 + 1 / 2) / 3)
    assert scored["f1"] == pytest.approx((1 / 2 + 4 / 5 + 2 / 3) / 3)
    assert scored["images"] == 6


def test_auc_and_loss_against_the_libraries():
    g = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(50, 4, generator=g), torch.randint(4, (50,), generator=g)
    scored = utility(logits, labels)
    expected = roc_auc_score(torch.eye(4)[labels], logits.softmax(1), multi_class="ovr", average="micro")
    assert scored["auc"] == pytest.approx(expected, abs=1e-6)
    assert scored["loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(logits, labels)), abs=1e-5)


def test_a_class_that_is_never_seen_and_never_guessed_counts_as_zero():
    scored = utility(torch.tensor([[9.0, 0, 0], [0, 9.0, 0]]), torch.tensor([0, 1]))
    assert scored["f1"] == pytest.approx(2 / 3)


def test_a_diverged_model_has_no_auc():
    scored = utility(torch.full((4, 2), float("nan")), torch.tensor([0, 1, 0, 1]))
    assert scored["auc"] != scored["auc"]

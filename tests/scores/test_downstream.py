"""A classifier's scores on two classes, by hand."""

import pytest
import torch

from fluoroscope.errors import BadInput
from fluoroscope.scores.downstream import downstream


def test_downstream_scores_by_hand():
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
    found = downstream(logits, torch.tensor([0, 0, 1, 1]))
    assert (found.tpr, found.tnr, found.accuracy) == (0.5, 0.5, 0.5)
    assert found.auroc == pytest.approx(0.75)  # of four pairs three are in order
    assert found.aupr == pytest.approx((1 + 2 / 3) / 2)


def test_downstream_needs_both_classes():
    with pytest.raises(BadInput, match="only one"):
        downstream(torch.zeros(3, 2), torch.ones(3))

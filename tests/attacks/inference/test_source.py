"""Whose record it is: by hand, where each client's model is sure of its own."""

import math

import pytest
import torch

from fluoroscope.attacks.inference.source import client_losses, source_guess, source_posterior
from fluoroscope.errors import Misconfigured
from tests.attacks.inference.one_layer import NETWORK, records, state


def test_the_client_with_the_lowest_loss_is_the_source():
    """One model says what the pixels say, the other the opposite."""
    found = client_losses(NETWORK, [state(1.0), state(-1.0)], records([[2.0, 0.0], [0.0, 2.0]], [0, 0]))
    low, high = math.log1p(math.exp(-2)), math.log1p(math.exp(2))
    assert found.tolist() == [pytest.approx([low, high]), pytest.approx([high, low])]
    assert source_guess(found).tolist() == [0, 1]


def test_the_posterior_is_a_softmax_over_clients():
    found = torch.tensor([[0.0, math.log(3)], [math.log(3), 0.0], [math.log(3), math.log(3)]])
    posterior = source_posterior(found)
    torch.testing.assert_close(posterior[:, 0], torch.tensor([3 / 5, 1 / 5, 1 / 5]))
    torch.testing.assert_close(posterior.sum(0), torch.ones(2))
    assert torch.equal(posterior.argmax(0), source_guess(found))


def test_one_client_is_no_question():
    with pytest.raises(Misconfigured, match="two or more"):
        client_losses(NETWORK, [state()], records([[1.0, 0.0]], [0]))

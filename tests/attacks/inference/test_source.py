"""Whose record it is: by hand, where each client's model is sure of its own."""

import math

import pytest
import torch

from fluoroscope.attacks.inference import INFERENCE_ATTACKS
from fluoroscope.errors import Misconfigured
from tests.attacks.inference.one_layer import records, rng, sent

SOURCE = INFERENCE_ATTACKS.get("source")


def test_the_posterior_is_a_softmax_over_clients():
    """One model says what the pixels say, the other the opposite: losses log(1 + e^-2) and log(1 + e^2)."""
    found = SOURCE.run([sent(1.0), sent(-1.0)], records([[2.0, 0.0], [0.0, 2.0]], [0, 0]), rng())
    low, high = math.log1p(math.exp(-2)), math.log1p(math.exp(2))
    likely = math.exp(-low) / (math.exp(-low) + math.exp(-high))
    expected = torch.tensor([[likely, 1 - likely], [1 - likely, likely]], dtype=torch.float64)
    torch.testing.assert_close(found.exp(), expected)
    torch.testing.assert_close(found.exp().sum(0), torch.ones(2, dtype=torch.float64))
    assert found.argmax(0).tolist() == [0, 1]


def test_the_likeliest_of_many_clients_has_the_lowest_loss():
    gains = torch.randn(5, generator=rng()).tolist()
    asked = records(torch.randn(9, 2, generator=rng()).tolist(), [0, 1, 0] * 3)
    slow = torch.tensor(
        [
            [
                -math.log(math.exp(g * image[0, 0, y]) / sum(math.exp(g * image[0, 0, k]) for k in (0, 1)))
                for image, y in zip(asked.images, asked.labels.tolist(), strict=True)
            ]
            for g in gains
        ]
    )
    assert torch.equal(SOURCE.run([sent(g) for g in gains], asked, rng()).argmax(0), slow.argmin(0))


def test_one_client_is_no_question():
    with pytest.raises(Misconfigured, match="two or more"):
        SOURCE.run([sent(1.0)], records([[1.0, 0.0]], [0]), rng())

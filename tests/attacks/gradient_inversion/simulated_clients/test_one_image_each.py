"""One image of each of several clients as one batch: the same as each alone."""

from dataclasses import replace

import pytest
import torch

from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.attacks.gradient_inversion.regularisers import SquaredNorm, TotalVariation
from fluoroscope.attacks.gradient_inversion.row_layout import one_by_one
from fluoroscope.attacks.gradient_inversion.simulated_clients.dispatch import blocks, client_for, row_evaluation
from fluoroscope.attacks.gradient_inversion.simulated_clients.one_image_each import OneImageEach, can_share_a_batch
from tests.attacks.gradient_inversion.observations import seen, victim

STATISTICS = Objective(batchnorm_weight=0.3, regularisers=(TotalVariation(0.5), SquaredNorm(0.1)))
GIGABYTE = 2**30


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("model", "size"), [("small-cnn", 28), ("resnet18", 40)])
@pytest.mark.parametrize("memory", [GIGABYTE, 1])
def test_equals_one_by_one(model, size, memory):
    clients = [client_for(seen(victim(1, size, seed=s), model), STATISTICS) for s in range(3)]
    owner = torch.tensor([0, 2, 1, 0])
    state = {name: value.clone() for name, value in clients[0].state.items()}
    together = row_evaluation(clients[0], clients[1:], owner, memory)
    assert isinstance(together, OneImageEach)
    images = torch.rand(3, *clients[0].setup.shape, generator=rng(9))
    logits, rows = torch.zeros(3, 1, 2), torch.tensor([0, 1, 3])
    ours = together(images, logits, rows)
    assert all(torch.equal(value, clients[0].state[name]) for name, value in state.items()), "nothing is changed"
    theirs = one_by_one([clients[int(i)] for i in owner])(images, logits, rows)
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()) + 1e-12)


def test_only_those_that_begin_alike_stand_side_by_side():
    alike = [seen(victim(1, seed=s), "small-cnn") for s in range(2)]
    elsewhere = seen(victim(1), "small-cnn", weights=3)
    withheld = replace(alike[0], buffers_after=dict(list((alike[0].buffers_after or {}).items())[:2]))
    assert blocks([*alike, elsewhere, withheld, seen(victim(2), "small-cnn")], STATISTICS) == [[0, 1], [2], [3], [4]]


def test_what_cannot_share_a_batch_is_known():
    assert can_share_a_batch(client_for(seen(victim(1), "small-cnn"), STATISTICS))
    assert not can_share_a_batch(client_for(seen(victim(2), "small-cnn"), STATISTICS))
    assert not can_share_a_batch(client_for(seen(victim(1)), Objective(batchnorm_weight=0.0)))

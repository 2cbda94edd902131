"""Rows evaluated as one computation equal rows evaluated one by one."""

import pytest
import torch

from fluoroscope.attacks.common.engine import Budget, descend
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.gradient_inversion.distances import (
    AdaptiveGaussian,
    Cosine,
    Gaussian,
    LayerL2,
    OfSquares,
    SquaredL2,
)
from fluoroscope.attacks.gradient_inversion.group import grouped
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.attacks.gradient_inversion.regularisers import GroupConsistency, SquaredNorm, TotalVariation
from fluoroscope.attacks.gradient_inversion.row_layout import Layout, one_by_one
from fluoroscope.attacks.gradient_inversion.simulated_clients.dispatch import blocks, client_for, row_evaluation
from fluoroscope.attacks.gradient_inversion.simulated_clients.swept import Swept, can_sweep
from fluoroscope.attacks.gradient_inversion.simulated_clients.vectorised import Vectorised, can_vectorise
from tests.attacks.gradient_inversion.observations import seen, victim

GIGABYTE = 2**30
OBJECTIVES = {
    "squared-l2": Objective(SquaredL2()),
    "layer-l2": Objective(LayerL2(), 0.5),
    "cosine": Objective(Cosine(), regularisers=(TotalVariation(0.1), SquaredNorm(0.2))),
    "gaussian": Objective(Gaussian(5.0)),
    "adaptive": Objective(AdaptiveGaussian(), 2.0),
}


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def doubled(client):
    client.setup.model.double()
    client.state = {k: v.double() if v.is_floating_point() else v for k, v in client.state.items()}
    client.seen = {k: v.double() for k, v in client.seen.items()}
    return client


def points(clients, rows: int):
    shape, classes = clients[0].setup.shape, clients[0].setup.outputs
    images = torch.rand(rows, *shape, generator=rng(1), dtype=torch.float64)
    return images, torch.randn(rows, shape[0], classes, generator=rng(2), dtype=torch.float64)


def assert_same(a, b, **tolerance):
    for ours, theirs in zip(a, b, strict=True):
        torch.testing.assert_close(ours, theirs, **tolerance)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.parametrize("own_weights", [False, True])
def test_equals_one_by_one(objective, own_weights):
    """Three observations, two restarts each; the rows in any order, and not all of them."""
    batches = [victim(2, seed=i) for i in range(3)]
    clients = [doubled(client_for(seen(b, weights=i * own_weights), objective)) for i, b in enumerate(batches)]
    owner = torch.arange(3).repeat_interleave(2)
    images, logits = points(clients, 6)
    together = row_evaluation(clients[0], clients[1:], owner, GIGABYTE)
    assert isinstance(together, Swept if isinstance(objective.distance, OfSquares) else Vectorised)
    alone = one_by_one([clients[i] for i in owner])
    for rows in (torch.arange(6), torch.tensor([4, 0, 3])):
        ours, theirs = (f(images[rows], logits[rows], rows) for f in (together, alone))
        assert_same(ours, theirs, atol=1e-9, rtol=1e-9)


def test_batchnorm_in_evaluation_mode_is_vectorised_with_its_buffers():
    clients = [
        doubled(client_for(seen(victim(1, 32, seed=i), "small-cnn", batchnorm="eval"), OBJECTIVES["cosine"]))
        for i in range(2)
    ]
    images, logits = points(clients, 2)
    rows = torch.arange(2)
    together = row_evaluation(clients[0], clients[1:], rows, GIGABYTE)
    assert isinstance(together, Vectorised)
    assert_same(together(images, logits, rows), one_by_one(clients)(images, logits, rows), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("kind", [Swept, Vectorised])
def test_chunks_change_nothing(kind):
    clients = [doubled(client_for(seen(victim(1, seed=i)), OBJECTIVES["squared-l2"])) for i in range(5)]
    images, logits = points(clients, 5)
    rows = torch.arange(5)
    whole, single = (kind(clients[0], clients[1:], rows, memory) for memory in (GIGABYTE, 1))
    assert (whole.at_once, single.at_once) == (whole.at_once, 1)
    assert whole.at_once > 5
    assert_same(whole(images, logits, rows), single(images, logits, rows), atol=1e-12, rtol=1e-12)


def test_what_cannot_be_vectorised_is_known():
    fits = client_for(seen(victim(2)), OBJECTIVES["squared-l2"])
    assert can_vectorise(fits)
    assert not can_vectorise(client_for(seen(victim(2, 32), "small-cnn"), OBJECTIVES["squared-l2"]))
    assert not can_vectorise(client_for(seen(victim(2)), Objective(regularisers=(TotalVariation(1.0),))))
    with_dropout = client_for(seen(victim(2)), OBJECTIVES["squared-l2"])
    with_dropout.setup.model.add_module("dropout", torch.nn.Dropout(0.5))
    assert not can_vectorise(with_dropout)


def test_what_cannot_be_swept_is_known():
    plain = OBJECTIVES["squared-l2"]
    assert can_sweep(client_for(seen(victim(2)), plain))
    assert not can_sweep(client_for(seen(victim(2)), OBJECTIVES["cosine"]))
    assert not can_sweep(client_for(seen(victim(2)), Objective(SquaredL2(), regularisers=(TotalVariation(1.0),))))
    pooled = client_for(seen(victim(1, 32), "small-cnn", batchnorm="eval"), plain)
    assert can_vectorise(pooled)
    assert not can_sweep(pooled)


def test_only_like_observations_run_side_by_side():
    observations = [
        seen(victim(1)),
        seen(victim(1, 32), "small-cnn"),
        seen(victim(1, seed=1), weights=3),
        seen(victim(2)),
        seen(victim(1, 32, seed=1), "small-cnn"),
    ]
    assert blocks(observations, OBJECTIVES["squared-l2"]) == [[0, 2], [1], [3], [4]]


def test_the_group_is_the_mean_of_its_own_rows():
    """By hand: groups (0, 2) and (1,); the consensus is held fixed in the derivative."""
    images = torch.rand(3, 1, 1, 4, 4, generator=rng())
    logits = torch.zeros(3, 1, 2)

    def nothing(images, logits, rows):
        return torch.zeros(len(rows)), torch.zeros_like(images), torch.zeros_like(logits)

    evaluate = grouped(nothing, GroupConsistency(3.0), torch.tensor([0, 1, 0]))
    values, to_images, _ = evaluate(images, logits, torch.arange(3))
    gap = (images[0] - images[2]) / 2
    torch.testing.assert_close(values, 3 * torch.stack([gap.square().mean(), torch.zeros(()), gap.square().mean()]))
    torch.testing.assert_close(to_images, torch.stack([6 * gap / 16, torch.zeros_like(gap), -6 * gap / 16]))
    left, _, _ = evaluate(images[:2], logits[:2], torch.tensor([2, 1]))
    assert left.tolist() == [0, 0], "row 0 is at rest and no longer counts"


def test_a_group_ends_together():
    """Two bowls with their minima at 0 and 1: each by itself ends in its own, drawn together they meet half way."""
    images, logits = torch.full((2, 1, 1, 4, 4), 0.3), torch.zeros(2, 1, 2)
    layout = Layout((1, 1, 4, 4), logits, optimised=False)

    def bowls(images, logits, rows):
        gap = images - rows.reshape(-1, 1, 1, 1, 1)
        return gap.square().flatten(1).mean(1), gap / 8, torch.zeros_like(logits)

    def ends(weight):
        evaluate = layout.over(grouped(bowls, GroupConsistency(weight), torch.tensor([0, 0])))
        outcome = descend(evaluate, layout.join(images, logits), Adam(0.02), Schedule(decay="cosine"), Budget(300))
        return outcome.last.mean(1).tolist()

    assert ends(0.0) == pytest.approx([0, 1], abs=0.02)
    assert ends(100.0) == pytest.approx([0.5, 0.5], abs=0.05)


@pytest.mark.parametrize("optimised", [True, False])
def test_a_layout_takes_apart_what_it_joined(optimised):
    images, logits = torch.rand(3, 2, 1, 4, 4, generator=rng()), torch.rand(3, 2, 5, generator=rng(1))
    layout = Layout((2, 1, 4, 4), logits, optimised)
    x = layout.join(images, logits)
    rows = torch.tensor([2, 0])
    assert torch.equal(layout.images(x), images)
    assert torch.equal(layout.labels(x[rows], rows), logits[rows])
    assert x.shape == (3, 32 + 10 * optimised)
    held = layout.project(10 * x - 3, (0.0, 1.0), grey=False)
    assert torch.equal(layout.images(held), (10 * images - 3).clamp(0, 1))
    if optimised:
        torch.testing.assert_close(layout.labels(held, torch.arange(3)), 10 * logits - 3)

"""The coarse grids: the derivative through them, and that they bring images on."""

from dataclasses import replace

import torch

from fluoroscope.attacks.gradient_inversion.coarse import CoarseToFine, OnAGrid
from fluoroscope.attacks.gradient_inversion.objective import Objective, OneStep
from fluoroscope.attacks.gradient_inversion.row_layout import one_by_one
from fluoroscope.attacks.gradient_inversion.stages import Grids
from tests.attacks.gradient_inversion.observations import seen, victim

from .simulated_clients.test_unrolled import in_double

STATISTICS = Objective(batchnorm_weight=0.5)
BOX = (0.0, 1.0)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_gradient_is_the_derivative():
    base = torch.full((1, 2, 1, 28, 28), 0.5, dtype=torch.float64)
    clients = one_by_one([in_double(OneStep(seen(victim(2), "small-cnn"), STATISTICS))])
    on_grid, rows = OnAGrid(clients, base, 4, BOX), torch.arange(1)
    assert on_grid.shape == (2, 1, 7, 7)
    grid = 0.3 * torch.randn((1, *on_grid.shape), generator=rng(1), dtype=torch.float64)
    towards, logits = torch.randn(grid.shape, generator=rng(2), dtype=torch.float64), torch.zeros(1, 2, 2)
    _, to_grid, _ = on_grid(grid, logits, rows)
    ahead, behind = (on_grid(grid + h * towards, logits, rows)[0].squeeze() for h in (1e-6, -1e-6))
    torch.testing.assert_close((to_grid * towards).sum(), (ahead - behind) / 2e-6, rtol=1e-4, atol=1e-7)


def test_images_come_nearer_and_stay_in_the_box():
    client, start = OneStep(seen(victim(2), "small-cnn"), STATISTICS), torch.full((2, 1, 28, 28), 0.5)
    told, logits = [], torch.zeros(2, 2)
    (found,) = CoarseToFine(iterations=10)(one_by_one([client]), start[None], logits[None], BOX, [rng()], told.append)
    assert client.evaluate(found, logits)[0] < 0.9 * client.evaluate(start, logits)[0]
    assert 0 <= found.min() <= found.max() <= 1
    assert told == list(range(30))
    assert torch.equal(start, torch.full((2, 1, 28, 28), 0.5))


def test_one_image_is_brought_on_too():
    client, start = OneStep(seen(victim(1), "small-cnn"), STATISTICS), torch.full((1, 1, 28, 28), 0.5)
    logits, grids = torch.zeros(1, 2), Grids().of(1)
    coarse = replace(grids, iterations=10)
    (found,) = coarse(one_by_one([client]), start[None], logits[None], BOX, [rng()], lambda _: None)
    assert grids.total == 3 * grids.iterations
    assert client.evaluate(found, logits)[0] < 0.9 * client.evaluate(start, logits)[0]

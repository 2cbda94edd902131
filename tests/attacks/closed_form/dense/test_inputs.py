"""Inputs of dense layers: exact spans, known sources, scikit-learn's components beside ours."""

import pytest
import torch
from sklearn.decomposition import FastICA
from torch import nn

from fluoroscope.attacks.closed_form.dense.independent_components import unmixing_of
from fluoroscope.attacks.closed_form.dense.inputs import corners, dense_inputs
from fluoroscope.attacks.closed_form.dense.layers import Dense, Pixels
from fluoroscope.data import Request, load
from fluoroscope.rng import seeded_globals

LAYER = Dense("0", 1024, 128, False, Pixels(torch.ones(1, 1, 1), torch.zeros(1, 1, 1)), (1, 32, 32))


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gradients(inputs: torch.Tensor, outputs: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    """Of a dense layer, a ReLU and a dense layer under cross-entropy."""
    with seeded_globals(1):
        net = nn.Sequential(nn.Linear(inputs.shape[1], outputs), nn.ReLU(), nn.Linear(outputs, 2)).double()
    loss = nn.functional.cross_entropy(net(inputs.double()), torch.arange(len(inputs)) % 2)
    weight, bias = torch.autograd.grad(loss, [net[0].weight, net[0].bias])
    return weight, bias


def correlations(ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    return torch.corrcoef(torch.cat([ours, theirs]))[: len(ours), len(ours) :]


@pytest.mark.parametrize("count", [1, 8, 24])
def test_phantoms_are_found_with_their_scale(count):
    images = load("phantom/chest", Request(size=32, images=count, seed=5)).batch.images.flatten(1).double()
    found = dense_inputs(LAYER, *gradients(images), count, rng())
    assert found is not None
    assert len(found) >= 0.9 * count  # an image that the network is sure of leaves no trace above rounding
    nearest = torch.cdist(images, found).min(1).values / images.norm(dim=1)
    assert (nearest < 0.25).double().mean() > 0.8
    if count == 1:
        torch.testing.assert_close(found, images, rtol=1e-6, atol=1e-8)


def test_rectified_inputs_are_found_exactly():
    inputs = torch.randn(8, 256, generator=rng(), dtype=torch.float64).clamp_min(0)
    layer = Dense("0", 256, 128, True, None)
    found = dense_inputs(layer, *gradients(inputs), 8, rng())
    assert found is not None
    best = (nn.functional.normalize(inputs) @ found.T).max(1).values
    torch.testing.assert_close(best, torch.ones_like(best), atol=1e-6, rtol=0)


def test_without_a_bias_the_direction_is_left():
    image = load("phantom/chest", Request(size=32, images=1, seed=5)).batch.images.flatten(1).double()
    found = dense_inputs(LAYER, gradients(image)[0], None, 1, rng())
    assert found is not None
    torch.testing.assert_close(found, nn.functional.normalize(image))


def test_too_many_images_and_noise_are_not_read():
    images = torch.rand(128, 1024, generator=rng(), dtype=torch.float64)
    assert dense_inputs(LAYER, *gradients(images), 128, rng()) is None
    noise = torch.randn(128, 1024, generator=rng(), dtype=torch.float64)
    assert dense_inputs(LAYER, noise, None, 4, rng()) is None


def test_components_are_scikit_learns():
    """The same sources, in any order and with either sign."""
    sources = torch.randn(4, 4000, generator=rng(), dtype=torch.float64) ** 3
    mixed = torch.randn(4, 4, generator=rng(1), dtype=torch.float64) @ sources
    theirs = FastICA(whiten="unit-variance", random_state=0, tol=1e-6).fit_transform(mixed.T.numpy()).T
    found = unmixing_of(mixed, rng(2)) @ mixed
    assert (correlations(torch.from_numpy(theirs), found).abs().max(1).values > 0.99).all()
    assert (correlations(sources, found).abs().max(1).values > 0.99).all()


def test_corners_are_a_linear_filter():
    a, b = torch.rand(2, 3, 1, 8, 8, generator=rng())
    torch.testing.assert_close(corners(2 * a - b), 2 * corners(a) - corners(b))
    flat = torch.arange(8.0)[:, None] + 3 * torch.arange(8.0)
    torch.testing.assert_close(corners(flat[None, None]), torch.zeros(1, 49))

"""What an update says of each bin, against a loop over the images."""

from functools import cache

import pytest
import torch

from fluoroscope.attacks.imprint import Brightness, MediLeak, SmoothProjections
from fluoroscope.attacks.imprint.bin_sums import bin_sums

from .victims import FIRST, LR, crafted, phantoms, places, update_of

IMAGES = 24
KINDS = [
    pytest.param("gated", SmoothProjections(), id="gated"),
    pytest.param("gated", Brightness(), id="gated-brightness"),
    pytest.param("plain", SmoothProjections(), id="plain"),
    pytest.param("plain", Brightness(), id="plain-brightness"),
    pytest.param("sparse", Brightness(), id="sparse-brightness"),
]


@cache
def example(front="gated", features=None):
    sent = crafted(MediLeak(60, features or SmoothProjections(), front), IMAGES)
    return sent, update_of(sent, phantoms(IMAGES, 3))


def coefficients(sent, batch):
    """Of each image, -lr dL/da: by autograd, for a neuron that fires."""
    network = sent.network.build().train()
    network.load_state_dict(sent.victim)
    front = network.front
    fired = front.activation(front.first(batch.images.flatten(1))).detach().requires_grad_()
    logits = network.network(front.second(front.gate(fired)).view_as(batch.images))
    (gradient,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, batch.labels), fired)
    torch.testing.assert_close(gradient, gradient[:, :1].expand_as(gradient), rtol=1e-5, atol=0)
    return -LR * gradient[:, 0].double()


@pytest.mark.parametrize(("front", "features"), KINDS)
def test_a_bin_holds_the_sum_over_its_images(front, features):
    sent, update = example(front, features)
    victims = phantoms(IMAGES, 3)
    found = bin_sums(sent, update)
    size = coefficients(sent, victims)
    pixels = torch.zeros(sent.bins.silent, 28 * 28, dtype=torch.float64)
    counts = torch.zeros(sent.bins.silent, dtype=torch.float64)
    for image, value, bins in zip(victims.images, size, places(sent.bins, victims.images), strict=True):
        for feature, place in enumerate(bins.tolist()):
            pixels[feature * sent.bins.width + place] += value * image.flatten()
            counts[feature * sent.bins.width + place] += value
    assert 1 < len(size.unique()) <= IMAGES
    # Differences of neighbours that hold all images above them: float32 rounds the largest.
    rounding = 1e-5 * float(size.abs().sum())
    torch.testing.assert_close(found.pixels.double(), pixels, rtol=1e-4, atol=rounding)
    torch.testing.assert_close(found.coefficients, counts, rtol=1e-4, atol=rounding)
    assert float(size.abs().min()) > 100 * rounding, "what is compared is far above the rounding"


def test_biases_that_differ_between_clients_leave_nothing():
    """In a sum over clients, the others' biases add one constant to all."""
    sent, update = example()
    shifted = {**update, FIRST[1]: update[FIRST[1]] - 3.25}
    torch.testing.assert_close(bin_sums(sent, shifted).coefficients, bin_sums(sent, update).coefficients)


def test_noise_is_measured_where_no_image_is():
    sent, update = example()
    noise = 1e-3 * torch.randn(update[FIRST[0]].shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = bin_sums(sent, {**update, FIRST[0]: update[FIRST[0]] + noise})
    assert found.noise == pytest.approx(1e-3 * 2**0.5, rel=0.15)  # a difference of two rows
    assert bin_sums(sent, update).noise < 1e-5


def test_an_update_is_left_as_it_was():
    sent, update = example()
    before = {name: value.clone() for name, value in update.items()}
    bin_sums(sent, update)
    assert all(torch.equal(update[name], before[name]) for name in update)


def test_nothing_in_gives_nothing_out():
    sent, update = example()
    found = bin_sums(sent, {name: torch.zeros_like(value) for name, value in update.items()})
    assert not found.pixels.any()
    assert not found.coefficients.any()
    assert found.noise == 0

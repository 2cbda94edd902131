"""P2's decoder: exact where an image is alone in its bin, a mixture where it is not."""

import pytest
import torch

from fluoroscope.attacks.imprint import Adjacent, Brightness, MediLeak
from fluoroscope.scores.recovery import recovery

from .victims import crafted, phantoms, places, update_of

POOL = 300


def chosen_by_bin(sent, per_bin, bins):
    """Phantoms of one class so that each of so many bins holds so many of them."""
    pool = phantoms(POOL, 7)
    where = places(sent.bins, pool.images)[:, 0]
    held = [((where == place) & (pool.labels == 0)).nonzero()[:, 0].tolist() for place in range(sent.bins.width)]
    full = [each[:per_bin] for each in held if len(each) >= per_bin][:bins]
    assert len(full) == bins
    return pool.subset([i for each in full for i in each])


@pytest.mark.parametrize("front", ["gated", "plain", "sparse"])
def test_images_alone_in_their_bins_are_exact(front):
    sent = crafted(MediLeak(60, Brightness(), front), 16)
    victims = chosen_by_bin(sent, 1, 16)
    found = Adjacent()(sent, update_of(sent, victims))
    assert len(found) == 16, "and empty bins give nothing"
    score = recovery(found.images, victims.images)
    assert score.rate.mean == 1
    assert score.psnr.min() > 90
    assert found.confidence.tolist() == [1.0] * 16


def test_two_images_in_a_bin_give_their_mixture():
    """Of one class, behind a network without dropout: half of each."""
    sent = crafted(MediLeak(30, Brightness()), 12)
    victims = chosen_by_bin(sent, 2, 6)
    found = Adjacent()(sent, update_of(sent, victims))
    mixtures = victims.images.view(6, 2, 1, 28, 28).mean(1)
    assert len(found) == 6
    assert recovery(found.images, mixtures).psnr.min() > 70
    assert recovery(found.images, victims.images).psnr.nan_to_num().max() < 40


def test_no_images_give_nothing():
    sent = crafted(MediLeak(30, Brightness()), 12)
    update = {name: torch.zeros_like(sent.victim[name]) for name in ("front.first.weight", "front.first.bias")}
    found = Adjacent()(sent, update)
    assert found.images.shape == (0, 1, 28, 28)
    assert found.confidence.shape == (0,)


def test_a_bin_of_no_possible_image_is_left_out():
    """Values far beyond [0, 1] are no image."""
    sent = crafted(MediLeak(60, Brightness()), 16)
    victims = chosen_by_bin(sent, 1, 16)
    update = update_of(sent, victims)
    tripled = {**update, "front.first.weight": 3 * update["front.first.weight"]}
    bright = int((victims.images.flatten(1).amax(1) * 3 > 1.1).sum())
    assert bright > 0
    assert len(Adjacent()(sent, tripled)) == 16 - bright

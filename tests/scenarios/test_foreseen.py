"""A rehearsal on the attacker's own images, against what then happens to a victim."""

import pytest
import torch

from fluoroscope.attacks.imprint import MediLeak, Subspace
from fluoroscope.scenarios.foreseen import foreseen_rate
from fluoroscope.scores.recovery import recovery
from tests.attacks.imprint.victims import crafted, phantoms, rng, update_of

IMAGES = 100


@pytest.mark.parametrize("share", [1.0, 1.5, 2.0])
def test_the_rate_is_foreseen(share):
    """Means of four draws; with one feature a rate of .4 of 100 images is known to .05 by chance alone."""
    foreseen, happened = [], []
    for seed in range(4):
        sent = crafted(MediLeak(round(share * IMAGES)), IMAGES, seed=seed)
        victims = phantoms(IMAGES, 20 + seed)
        found = Subspace()(sent, update_of(sent, victims))
        happened.append(recovery(found.images, victims.images).rate.mean)
        foreseen.append(foreseen_rate(sent, Subspace(), 1, rng(seed)))
    gap = abs(sum(foreseen) - sum(happened)) / 4
    assert gap < (0.03 if share > 1 else 0.06)


def test_more_images_than_auxiliary_ones_are_made_of_them():
    sent = crafted(MediLeak(1000), 500)
    assert len(sent.auxiliary) < 500
    assert foreseen_rate(sent, Subspace(), 5, rng()) > 0.95


def test_that_nothing_will_be_read_is_foreseen_too():
    """Updates for several mini-batches are below the grid of a secure sum."""
    sent = crafted(MediLeak(2 * IMAGES, steady=True), IMAGES)
    assert foreseen_rate(sent, Subspace(), 5, rng()) == 0
    assert foreseen_rate(sent, Subspace(), 1, rng()) > 0.85


def test_nothing_is_changed_and_the_generator_decides():
    sent = crafted(MediLeak(2 * IMAGES), IMAGES)
    before = sent.auxiliary.clone()
    assert foreseen_rate(sent, Subspace(), 5, rng(3)) == foreseen_rate(sent, Subspace(), 5, rng(3))
    assert torch.equal(sent.auxiliary, before)

"""The default decoder against the images: at several k, from rounded sums, over mini-batches, and where nothing is."""

import time
from functools import cache

import pytest
import torch

from fluoroscope.attacks.imprint import Adjacent, MediLeak, Subspace
from fluoroscope.federation.local_training import local_training
from fluoroscope.scores.recovery import recovery
from fluoroscope.types import LocalTraining, Sgd

from .victims import FIRST, LR, crafted, ellipses, one_step, peelable, phantoms, places, rng, update_of

IMAGES = 100
SURE = 0.95
STEP = 3.8e-6
"""Of SecAgg+'s grid."""


@cache
def example(neurons, model="lenet5", seed=1):
    sent = crafted(MediLeak(neurons), IMAGES, model, seed)
    return sent, update_of(sent, phantoms(IMAGES, 3))


def judged(found, images):
    """The recovery rate, how many recovered images are wrong, and how many of these are sure."""
    score = recovery(found.images, images)
    right = torch.zeros(len(found), dtype=torch.bool)
    right[score.reconstruction[score.recovered]] = True
    return score, int((~right).sum()), int((~right & (found.confidence > SURE)).sum())


def rounded(update, images, clients=5):
    noise, weight = rng(9), images / 1000
    return {
        name: (value * weight + STEP * (torch.rand((clients, *value.shape), generator=noise).double() - 0.5).sum(0))
        / (clients * weight)
        for name, value in update.items()
    }


@pytest.mark.parametrize("model", ["lenet5", "p3-cnn", pytest.param("vit-small", marks=pytest.mark.slow)])
@pytest.mark.parametrize("share", [1.5, 2.0])
def test_nearly_all_images_come_back_exactly(model, share):
    sent, update = example(round(share * IMAGES), model)
    score, wrong, sure_wrong = judged(Subspace()(sent, update), phantoms(IMAGES, 3).images)
    assert score.rate.mean >= 0.95
    assert score.psnr[score.recovered].median() > 90
    assert wrong <= 2
    assert sure_wrong == 0


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_rounded_sum_costs_decibels_and_no_images(seed):
    """Nothing is chosen here: the first eight draws of the features."""
    sent, update = example(2 * IMAGES, seed=seed)
    score, _, sure_wrong = judged(Subspace()(sent, rounded(update, IMAGES)), phantoms(IMAGES, 3).images)
    exact, *_ = judged(Subspace()(sent, update), phantoms(IMAGES, 3).images)
    assert score.rate.mean >= 0.95
    assert 70 < score.psnr[score.recovered].mean() < exact.psnr[exact.recovered].mean()
    assert sure_wrong == 0


def mini_batches(images=IMAGES, source=phantoms):
    own = source(400, 99)
    training = LocalTraining(Sgd(LR), images, images // 5, 1)
    sent = MediLeak(2 * images, steady=True).craft(
        crafted(MediLeak(40), 4).network.agreed, training, own.images, own.labels, rng(1)
    )
    after = local_training(sent.network.build(), sent.victim, source(images, 3), training, rng()).state
    return sent, {name: after[name].double() - sent.victim[name].double() for name in FIRST}


def test_five_mini_batches_are_read_from_an_exact_sum():
    sent, update = mini_batches()
    score, _, sure_wrong = judged(Subspace()(sent, update), phantoms(IMAGES, 3).images)
    assert score.rate.mean >= 0.85
    assert sure_wrong <= 1


def test_pixels_that_neighbours_do_not_tell_are_right_or_not_sure():
    """Binary images: a feature's own pixels are shown by two features alone, and lie in [0, 1]."""
    sent, update = mini_batches(source=ellipses)
    score, _, sure_wrong = judged(Subspace()(sent, update), ellipses(IMAGES, 3).images)
    assert score.rate.mean >= 0.85
    assert sure_wrong <= 1


@pytest.mark.parametrize("images", [60, 300])
def test_updates_below_the_grid_give_nothing_and_at_once(images):
    sent, update = mini_batches(images)
    began = time.process_time()
    assert len(Subspace()(sent, rounded(update, images))) == 0
    assert time.process_time() - began < 3


def test_with_as_many_neurons_as_images_every_bin_is_read_by_itself():
    """One feature: as P2's formula, and of a network without dropout it is known which bins hold one image."""
    sent, update = example(IMAGES)
    assert len(sent.bins.features) == 1
    found = Subspace()(sent, update)
    score, _, sure_wrong = judged(found, phantoms(IMAGES, 3).images)
    plain, *_ = judged(Adjacent()(sent, update), phantoms(IMAGES, 3).images)
    where = places(sent.bins, phantoms(IMAGES, 3).images)[:, 0]
    alone = int((torch.bincount(where)[where] == 1).sum())
    assert int(score.recovered.sum()) >= alone
    assert int(score.recovered.sum()) == int(plain.recovered.sum())
    assert sure_wrong == 0
    assert int((found.confidence > SURE).sum()) >= 0.8 * alone


def test_images_that_lie_elsewhere_are_not_sure():
    """As if six images had bins that they do not lie in: what explains the bins is not believed."""
    sent, _ = example(2 * IMAGES)
    weight, bias = (torch.zeros_like(sent.victim[name]).double() for name in FIRST)
    circle = torch.tensor([[9, 9, 9], [9, 12, 12], [12, 12, 9], [12, 15, 15], [15, 9, 12], [15, 15, 15]])
    for image, own in zip(phantoms(300, 7).images[:6].flatten(1).double(), circle, strict=True):
        rows = own + torch.arange(3) * sent.bins.width
        weight[rows] += 0.5 * image
        bias[rows] += 0.5
    assert len(Subspace()(sent, {FIRST[0]: weight, FIRST[1]: bias}).above(SURE)) == 0


@pytest.mark.parametrize("size", [1e-6, 1.0])
def test_noise_alone_gives_nothing_that_is_sure(size):
    sent, update = example(2 * IMAGES)
    noise = {name: size * torch.randn(value.shape, generator=rng(5)) for name, value in update.items()}
    assert not (Subspace()(sent, noise).confidence > 0.5).any()


def test_no_images_give_nothing():
    sent, update = example(2 * IMAGES)
    found = Subspace()(sent, {name: torch.zeros_like(value) for name, value in update.items()})
    assert found.images.shape == (0, 1, 28, 28)
    assert found.confidence.shape == (0,)


@pytest.mark.parametrize("images", [1, 2, 5])
def test_a_few_images_come_back(images):
    sent = crafted(MediLeak(40), images)
    batch = phantoms(IMAGES, 3).subset(range(images))
    assert judged(Subspace()(sent, update_of(sent, batch)), batch.images)[0].rate.mean == 1


def test_five_epochs_leave_the_crafted_layer_as_one_did():
    sent, once = example(2 * IMAGES)
    training = one_step(IMAGES, 5)
    after = local_training(sent.network.build(), sent.victim, phantoms(IMAGES, 3), training, rng()).state
    assert all(torch.equal(after[name].double() - sent.victim[name].double(), once[name]) for name in FIRST)


def test_an_update_is_left_as_it_was():
    sent, update = example(2 * IMAGES)
    before = {name: value.clone() for name, value in update.items()}
    Subspace()(sent, update)
    assert all(torch.equal(update[name], before[name]) for name in update)


def test_where_every_bin_holds_several_images_the_fewest_explain_them():
    """A core that nothing can be peeled from: each image shares all its bins, and sums of others fit them too."""
    sent = crafted(MediLeak(round(1.5 * IMAGES)), IMAGES, "p3-cnn", 1)
    pool = phantoms(1000, 3)
    where = places(sent.bins, pool.images)
    draws = (torch.randperm(len(pool), generator=rng(seed))[:IMAGES] for seed in range(300))
    images = pool.subset(next(own for own in draws if peelable(where[own]) < 0.8 * IMAGES).tolist())
    score, wrong, sure_wrong = judged(Subspace()(sent, update_of(sent, images)), images.images)
    assert score.rate.mean >= 0.95
    assert wrong <= 2
    assert sure_wrong == 0


def test_crafting_depends_on_its_generator_alone():
    first, second = (crafted(MediLeak(2 * IMAGES), IMAGES, "p3-cnn") for _ in range(2))
    assert all(torch.equal(first.victim[name], second.victim[name]) for name in first.victim)

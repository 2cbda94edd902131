"""Bins opened one image at a time, against the images and against an oracle that knows every image's bins."""

from functools import cache

import pytest
import torch

from fluoroscope.attacks.imprint import MediLeak, Peeling, SmoothProjections
from fluoroscope.federation.local_training import local_training
from fluoroscope.scores.recovery import recovery

from .victims import FIRST, crafted, one_step, peelable, phantoms, places, rng, update_of

IMAGES, NEURONS = 60, 120
SURE = 0.95
STEP = 3.8e-6
"""Of SecAgg+'s grid."""


@cache
def example(draw=1, victims=3, neurons=NEURONS, model="lenet5"):
    sent = crafted(MediLeak(neurons, SmoothProjections()), IMAGES, model, seed=draw)
    return sent, update_of(sent, phantoms(IMAGES, victims))


@cache
def peeled(draw=1, victims=3, neurons=NEURONS, model="lenet5"):
    found = Peeling()(*example(draw, victims, neurons, model))
    return found, recovery(found.images, phantoms(IMAGES, victims).images)


def wrong_of(found, score):
    """The recovered images that are none of the originals."""
    right = set(score.reconstruction[score.recovered].tolist())
    return [i for i in range(len(found)) if i not in right]


def sure_and_wrong(found, score):
    return [i for i in wrong_of(found, score) if found.confidence[i] > SURE]


@pytest.mark.parametrize("model", ["lenet5", "p3-cnn", "vit-small"])
def test_nearly_all_images_come_back_exactly(model):
    found, score = peeled(model=model)
    assert score.rate.mean >= 0.97
    assert score.psnr[score.recovered].mean() > 90
    assert not sure_and_wrong(found, score)


DRAWS = [(draw, victims) for draw in range(8) for victims in (3, 4)]


def test_over_many_draws_of_the_features_most_images_come_back():
    """Nothing is chosen here: the first eight draws, two sets of victims."""
    scores = [peeled(*each)[1] for each in DRAWS]
    assert sum(score.rate.mean for score in scores) / len(scores) > 0.95
    assert min(score.rate.mean for score in scores) > 0.8
    right = torch.cat([score.psnr[score.recovered] for score in scores])
    assert right.mean() > 90


def test_over_many_draws_hardly_any_image_is_sure_and_wrong():
    assert sum(len(sure_and_wrong(*peeled(*each))) for each in DRAWS) <= 0.005 * IMAGES * len(DRAWS)


def test_every_draw_gives_back_what_an_oracle_peels():
    for draw, victims in DRAWS:
        where = places(example(draw, victims)[0].bins, phantoms(IMAGES, victims).images)
        assert peeled(draw, victims)[1].rate.mean >= peelable(where) / IMAGES - 0.04


def few(draw, victims, chosen):
    """A victim with some of the images only: what was found, how well, and the images' bins."""
    batch = phantoms(IMAGES, victims).subset(chosen)
    sent = crafted(MediLeak(NEURONS, SmoothProjections()), len(batch), seed=draw)
    found = Peeling()(sent, update_of(sent, batch))
    return found, recovery(found.images, batch.images), places(sent.bins, batch.images)


def sharing(draw, victims, bins, same_class):
    """Pairs of images that share so many bins."""
    batch = phantoms(IMAGES, victims)
    where = places(crafted(MediLeak(NEURONS, SmoothProjections()), 2, seed=draw).bins, batch.images)
    return [
        [i, j]
        for i in range(len(batch))
        for j in range(i)
        if (batch.labels[i] == batch.labels[j]) == same_class and int((where[i] == where[j]).sum()) == bins
    ]


def test_an_image_alone_in_two_bins_is_found():
    alike = sharing(7, 4, 1, same_class=True)
    assert len(alike) > 5
    for pair in alike[:5]:
        _, score, where = few(7, 4, pair)
        assert peelable(where) == 2
        assert score.recovered.all()


def test_two_images_of_one_class_that_share_two_bins_are_told_apart():
    """Each is alone in the third feature; their mixture stands in the two bins that they share."""
    batch, sent = phantoms(300, 7), crafted(MediLeak(NEURONS, SmoothProjections()), 2)
    where = places(sent.bins, batch.images)
    shared = [
        (i, j)
        for i in range(len(batch))
        for j in range(i)
        if batch.labels[i] == batch.labels[j] and int((where[i] == where[j]).sum()) == 2
    ]
    assert len(shared) > 10
    for pair in shared[:10]:
        found = Peeling()(sent, update_of(sent, batch.subset(pair)))
        assert recovery(found.images, batch.subset(pair).images).psnr.min() > 60


def test_two_images_of_two_classes_that_share_two_bins_are_told_apart():
    alike = [(draw, pair) for draw in range(6) for pair in sharing(draw, 3, 2, same_class=False)]
    assert alike
    for draw, pair in alike[:5]:
        found, score, _ = few(draw, 3, pair)
        assert len(found.above(SURE)) == 0 or score.psnr.min() > 60


def test_no_image_is_sure_and_wrong():
    found, score, _ = few(7, 3, [22, 43, 48, 54, 55, 56, 57, 59])
    assert not sure_and_wrong(found, score)


def test_bins_without_an_image_alone_open_nothing():
    """A quarter as many bins: an oracle peels none, and what is found is wrong and not sure."""
    found, score = peeled(neurons=30)
    sent, _ = example(neurons=30)
    assert peelable(places(sent.bins, phantoms(IMAGES, 3).images)) == 0
    assert score.rate.mean < 0.02
    assert (found.confidence < SURE).all()


@pytest.mark.parametrize("draw", [1, 3])
def test_rounding_of_a_secure_sum_costs_decibels_and_no_images(draw):
    """Each of five clients' stochastic rounding is off by less than a step."""
    sent, update = example(draw)
    noise, weight = rng(9), IMAGES / 1000
    rounded = {
        name: value * weight
        + sum(STEP * (2 * torch.rand(value.shape, generator=noise, dtype=torch.float64) - 1) for _ in range(5))
        for name, value in update.items()
    }
    found = Peeling()(sent, rounded)
    score = recovery(found.images, phantoms(IMAGES, 3).images)
    assert score.rate.mean >= 0.97
    assert 60 < score.psnr[score.recovered].mean() < peeled(draw)[1].psnr.nan_to_num().mean()
    assert not sure_and_wrong(found, score)


def test_five_epochs_leave_the_crafted_layer_as_one_did():
    """The first step shuts the gate: the later ones add nothing, bit for bit."""
    sent, once = example()
    often = update_of(sent, phantoms(IMAGES, 3), epochs=5)
    assert all(torch.equal(once[name], often[name]) for name in FIRST)
    assert once[FIRST[0]].any()


@pytest.mark.parametrize("model", ["lenet5", "p3-cnn"])
def test_steady_updates_leave_the_images_in_their_bins(model):
    """For several mini-batches instead of a gate: nothing is shut, and no image crosses more than a few thresholds."""
    victims = phantoms(IMAGES, 3)
    x = victims.images.flatten(1).double()

    def crossed(sent, update):
        """Thresholds of each feature that an image is on the other side of afterwards, (images, features)."""
        weight, bias = (sent.victim[name].double() for name in FIRST)
        before = x @ weight.T + bias > 0
        after = x @ (weight + update[FIRST[0]]).T + bias + update[FIRST[1]] > 0
        return (before != after)[:, : sent.bins.silent].view(IMAGES, 3, -1).sum(2)

    sent = crafted(MediLeak(NEURONS, steady=True), IMAGES, model)
    once, often = (update_of(sent, victims, epochs) for epochs in (1, 5))
    assert not torch.equal(once[FIRST[0]], often[FIRST[0]])
    assert crossed(sent, often).max() <= 3
    assert crossed(*example(model=model)).max() > 10, "which the gated front does not care about"


@pytest.mark.parametrize("model", ["lenet5", "p3-cnn", "small-cnn", "resnet18-gn"])
def test_after_the_first_step_the_gate_is_shut_for_every_image(model):
    """With dropout and BatchNorm too, and for images that the first step did not see."""
    sent = crafted(MediLeak(NEURONS), 20, model)
    network, training = sent.network.build(), one_step(20)
    first = local_training(network, sent.victim, phantoms(20, 3), training, rng()).state
    then = local_training(network, first, phantoms(20, 8), training, rng(1)).state
    for name in FIRST:
        assert not torch.equal(first[name], sent.victim[name])
        assert torch.equal(then[name], first[name])


def test_no_images_give_nothing():
    sent, update = example()
    found = Peeling()(sent, {name: torch.zeros_like(value) for name, value in update.items()})
    assert found.images.shape == (0, 1, 28, 28)
    assert found.confidence.shape == (0,)


@pytest.mark.parametrize("size", [1e-6, 1.0])
def test_noise_alone_gives_nothing_that_is_sure(size):
    sent, update = example()
    noise = {name: size * torch.randn(value.shape, generator=rng(5)) for name, value in update.items()}
    assert not (Peeling()(sent, noise).confidence > 0.5).any()


def test_an_update_is_left_as_it_was():
    sent, update = example()
    before = {name: value.clone() for name, value in update.items()}
    Peeling()(sent, update)
    assert all(torch.equal(update[name], before[name]) for name in update)

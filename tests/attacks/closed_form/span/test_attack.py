"""The span attack on a real network's update."""

from dataclasses import replace

import pytest
import torch

from fluoroscope.attacks.closed_form.span import Span
from fluoroscope.attacks.closed_form.span.client import Client
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.data import Request, load
from fluoroscope.errors import Unsupported
from fluoroscope.federation.local_training import local_training
from fluoroscope.models import Architecture
from fluoroscope.scores.matching import match
from fluoroscope.scores.similarity import mse, mse_matrix, ssim
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Adam, AdamW, LocalTraining, Observation, PrivateBatch, Sgd, UpdateRecord


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def batch(images: int, size: int = 64) -> PrivateBatch:
    return load("phantom/chest", Request(size=size, images=images, seed=3)).batch


def observed(victims: PrivateBatch, training: LocalTraining, model: str = "resnet18") -> Observation:
    size = victims.images.shape[-1]
    architecture = Architecture(model, 1, 2, size)
    network = architecture.build()
    state = {name: value.detach().clone() for name, value in network.state_dict().items()}
    after = local_training(network, state, victims, training, rng()).state
    buffers = {name for name, _ in network.named_buffers()}
    parts = [
        {name: value for name, value in given.items() if (name in buffers) == of_buffers}
        for given, of_buffers in ((state, False), (after, False), (state, True), (after, True))
    ]
    prior = load("phantom/chest", Request(size=size, images=16, seed=99)).batch.images.mean(0)
    record = UpdateRecord(1, ("client-9",), architecture, training, *parts)
    return observe(record, THREATS.get("curious-server"), prior)


def test_features_of_a_batch_are_exact():
    """What the attacker reads from the update is what the network saw of each image."""
    victims = batch(4)
    client = Client(observed(victims, LocalTraining(Sgd(0.01), 4, 4)))
    target = client.target(rng())
    assert target.layer == "layer3.0.conv1"
    assert target.scaled
    assert len(target.maps) == 4
    truth = client.features(victims.images, target.layer)[0]
    gaps = torch.cdist(target.maps.flatten(1), truth.flatten(1)) / truth.flatten(1).norm(dim=1)
    assert sorted(gaps.argmin(1).tolist()) == [0, 1, 2, 3]
    assert gaps.amin(1).max() < 0.02


@pytest.mark.slow
def test_a_batch_of_images_is_recovered():
    """Every one of four images from one step: nearer than the prior after a short descent."""
    victims = batch(4)
    seen = observed(victims, LocalTraining(Sgd(0.01), 4, 4))
    (guess,) = Span(budget=Budget(120), restarts=1).run([seen], rng())
    found = match(mse_matrix(guess.images, victims.images), higher_is_better=False)
    assert seen.public_mean is not None
    start = mse(seen.public_mean.expand_as(victims.images), victims.images)[found.originals]
    assert len(found.scores) == 4
    assert (found.scores < 0.75 * start).all()


def test_several_steps_show_all_their_images():
    """Two steps of two images: the features of all four stand in the update."""
    client = Client(observed(batch(4), LocalTraining(Sgd(0.001), 4, 2)))
    assert len(client.target(rng()).maps) == 4


def test_decay_over_several_steps_is_undone():
    """Two steps of two images under a strong decay and momentum: the same features, to rounding."""
    optimisers = Sgd(0.001), Sgd(0.001, momentum=0.9, weight_decay=0.1)
    for optimiser in optimisers:
        client = Client(observed(batch(4), LocalTraining(optimiser, 4, 2)))
        assert len(client.target(rng()).maps) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optimiser": Adam(0.01), "batch_size": 1}, "from one step, or from several of SGD"),
        ({"epochs": 2}, "2 epochs"),
        ({"batchnorm": "eval"}, "BatchNorm is in training mode"),
    ],
)
def test_training_that_it_cannot_read_is_named(change, message):
    seen = observed(batch(2), replace(LocalTraining(Sgd(0.01), 2, 2), **change))
    with pytest.raises(Unsupported, match=message):
        Span().run([seen], rng())


@pytest.mark.slow
def test_a_decayed_step_is_read_as_a_plain_one():
    """Weight decay and momentum of one step are undone exactly (the update of lr wd w is known)."""
    plain, decayed = (
        Client(observed(batch(1), LocalTraining(optimiser, 1, 1))).target(rng())
        for optimiser in (Sgd(0.01), Sgd(0.01, 0.9, 1e-4))
    )
    assert decayed.layer == plain.layer
    assert float(plain.misfit(decayed.maps)) < 0.01


@pytest.mark.parametrize("optimiser", [pytest.param(Adam(1e-3), marks=pytest.mark.slow), AdamW(1e-3)], ids=str)
def test_features_are_read_from_the_first_step_of_adam(optimiser):
    """Adam hides the large values of a gradient; its rank and the small ones give them back."""
    victims = batch(1)
    client = Client(observed(victims, LocalTraining(optimiser, 1, 1)))
    target = client.target(rng())
    assert float(target.misfit(client.features(victims.images, target.layer)[0])) < 0.05


def test_images_that_do_not_have_the_features_are_not_given_out():
    """Two steps at a fresh network: statistics of single steps are unknown, the descent ends elsewhere, and says so."""
    seen = observed(batch(4), LocalTraining(Sgd(0.01), 4, 2))
    (guess,) = Span(budget=Budget(20), restarts=1).run([seen], rng())
    assert "no image was found" in guess.nothing
    assert torch.equal(guess.images[0], seen.public_mean)


@pytest.mark.slow
def test_a_little_noise_on_the_update_does_not_stop_it():
    """Noise of a fifth of the update's size: the features are still read, within a tenth."""
    victims = batch(1)
    seen = observed(victims, LocalTraining(Sgd(0.01), 1, 1))
    assert seen.update is not None
    draws = rng()
    noised = {
        name: v + 0.2 * v.std() * torch.randn(v.shape, generator=draws) for name, v in seen.update.items() if v.ndim > 1
    }
    client = Client(replace(seen, update={**seen.update, **noised}))
    target = client.target(rng())
    assert float(target.misfit(client.features(victims.images, target.layer)[0])) < 0.1


@pytest.mark.slow
def test_noise_as_large_as_the_update_leaves_its_last_layers():
    """Few positions among many channels: what the images have in common with noise is little."""
    victims = batch(2)
    seen = observed(victims, LocalTraining(Sgd(0.01), 2, 2))
    assert seen.update is not None
    draws = rng()
    noised = {name: v + v.std() * torch.randn(v.shape, generator=draws) for name, v in seen.update.items()}
    target = Client(replace(seen, update=noised)).target(rng())
    assert target.layer.startswith("layer4")
    truth = Client(seen).features(victims.images, target.layer)[0].flatten(1)
    cosines = torch.nn.functional.normalize(target.maps.flatten(1)) @ torch.nn.functional.normalize(truth).T
    assert sorted(cosines.argmax(1).tolist()) == [0, 1]
    assert cosines.amax(1).min() > 0.99


def test_noise_on_the_update_stops_it():
    seen = observed(batch(2), LocalTraining(Sgd(0.01), 2, 2))
    assert seen.update is not None
    draws = rng()
    noised = {name: v + 100 * v.std() * torch.randn(v.shape, generator=draws) for name, v in seen.update.items()}
    (guess,) = Span().run([replace(seen, update=noised)], rng())
    assert "noised" in guess.nothing
    assert torch.equal(guess.images[0], seen.public_mean)


def test_a_network_whose_features_are_dense_shows_nothing():
    seen = observed(batch(1, 32), LocalTraining(Sgd(0.01), 1, 1), "lenet5")
    (guess,) = Span().run([seen], rng())
    assert "shows no layer's features" in guess.nothing


def test_groupnorm_does_not_hide_the_features():
    victims = batch(1)
    (guess,) = Span().run([observed(victims, LocalTraining(Sgd(0.01), 1, 1), "resnet18-gn")], rng())
    assert not guess.nothing
    assert float(ssim(guess.images, victims.images)) > 0.8

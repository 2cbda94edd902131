"""Batches through dense layers on pixels and on features, by steps and epochs."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.closed_form.dense.layers import dense_layers
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.errors import Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.rng import seeded_globals
from fluoroscope.scores.null import against_others
from fluoroscope.scores.similarity import ssim_matrix
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import (
    Adam,
    AdamW,
    LabelledImages,
    LocalTraining,
    Network,
    Normalisation,
    Observation,
    PrivateBatch,
    Sgd,
)
from tests.attacks.learned.test_feature_decoder import phantoms, rng


def dense_on_pixels() -> Network:
    with seeded_globals(1):
        return Network.of(nn.Sequential(nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 2)), (1, 32, 32))


def dense_on_features() -> Network:
    """A dense layer behind a rectified convolution."""
    with seeded_globals(1):
        body = [nn.Conv2d(1, 16, 5, 4, 2), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten()]
        head = [nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 2)]
        return Network.of(nn.Sequential(*body, *head), (1, 32, 32))


def observed(network: Network, victims: PrivateBatch, training: LocalTraining) -> Observation:
    own = phantoms(80, seed=98)
    record = client_round(network, network.build().state_dict(), victims, training, rng()).record
    public = LabelledImages(own.images, own.labels, own.patients)
    return observe(record, THREATS.get("curious-server"), public_images=public)


TRAININGS = {
    "one step": LocalTraining(Sgd(0.1), 8, 8),
    "AdamW": LocalTraining(AdamW(1e-3), 8, 8),
    "normalised": LocalTraining(Sgd(0.1), 8, 8, normalisation=Normalisation((0.4,), (0.2,))),
    "two epochs of four steps": LocalTraining(Sgd(0.1, momentum=0.9, weight_decay=0.01), 8, 2, epochs=2),
}


@pytest.mark.parametrize("training", TRAININGS.values(), ids=TRAININGS)
def test_a_batch_through_a_dense_layer_on_pixels(training):
    victims = phantoms(8, 3)
    (guess,) = ATTACKS.get("cocktail-party").run([observed(dense_on_pixels(), victims, training)], rng())
    assert not guess.nothing
    best = ssim_matrix(guess.images, victims.images).max(0).values
    assert (best > (0.75 if isinstance(training.optimiser, Adam) else 0.9)).sum() >= 6


def test_a_batch_through_a_dense_layer_on_features_is_told_apart():
    clients = [phantoms(6, seed) for seed in range(4)]
    seen = [observed(dense_on_features(), batch, LocalTraining(Sgd(0.05), 6, 6)) for batch in clients]
    guesses = ATTACKS.get("cocktail-party").run(seen, rng())
    assert sum(len(guess.images) for guess in guesses if not guess.nothing) >= 12
    assert seen[0].public_images is not None
    images, originals = [guess.images for guess in guesses], [batch.images for batch in clients]
    score = against_others(images, originals, seen[0].public_images.images.mean(0), rng())
    assert score.leak.low > 0
    assert score.told_apart.mean > 2 * score.chance


def test_what_a_layer_is_given_is_seen():
    pixels = dense_layers(Setup.of(observed(dense_on_pixels(), phantoms(2, 3), LocalTraining(Sgd(0.1), 2, 2))), rng())
    assert [layer.pixels is not None for layer in pixels] == [True, False]
    features = dense_layers(
        Setup.of(observed(dense_on_features(), phantoms(2, 3), LocalTraining(Sgd(0.1), 2, 2))), rng()
    )
    assert [(layer.sparse, layer.pixels) for layer in features] == [(True, None), (True, None)]


def test_what_it_cannot_read_is_named_and_noise_leaves_nothing():
    seen = observed(dense_on_pixels(), phantoms(4, 3), LocalTraining(Adam(1e-3), 4, 2))
    with pytest.raises(Unsupported, match="one step, or from several of SGD"):
        ATTACKS.get("cocktail-party").run([seen], rng())
    seen = observed(dense_on_pixels(), phantoms(4, 3), LocalTraining(Sgd(0.1), 4, 4))
    assert seen.update is not None
    noised = {name: value + torch.randn(value.shape, generator=rng(1)) for name, value in seen.update.items()}
    (guess,) = ATTACKS.get("cocktail-party").run([replace(seen, update=noised)], rng())
    assert "no dense layer of this update of 4 images" in guess.nothing

"""Several epochs: every image is seen several times, and its first view is told from the later ones."""

import torch
from torch.nn.functional import normalize

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.closed_form.span.client import Client
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.learned.public_features import public_features
from fluoroscope.attacks.learned.views import drift, first_views
from fluoroscope.federation.client_round import client_round
from fluoroscope.scores.null import against_others
from fluoroscope.types import LocalTraining, Sgd
from tests.attacks.learned.test_feature_decoder import LAYER, NETWORK, STATE, observed, phantoms, rng


def test_the_earliest_view_of_each_image_is_kept():
    """Three images, three views each that go the same way, in any order."""
    images = normalize(torch.rand(3, 40, generator=rng(), dtype=torch.float64))
    away = 0.3 * normalize(torch.randn(1, 40, generator=rng(1), dtype=torch.float64))
    views = normalize(torch.cat([images, images + away, images + 2 * away]))
    order = torch.randperm(9, generator=rng(2))
    found = first_views(views[order].view(9, 10, 2, 2), 3, away[0]).flatten(1)
    assert len(found) == 3
    torch.testing.assert_close((images @ found.T).max(1).values, torch.ones(3, dtype=torch.float64))


def test_fewer_views_than_images_are_all_kept():
    views = normalize(torch.rand(2, 8, generator=rng())).view(2, 2, 2, 2)
    assert len(first_views(views, 5, torch.zeros(8))) == 2


def test_both_epochs_stand_in_the_row_space_and_public_images_tell_which_is_first():
    """The oracle trains one epoch, and asks the network what it sees of the images before and after it."""
    victims, training = phantoms(2, 3), LocalTraining(Sgd(0.05), 2, 2, epochs=2)
    seen = observed(victims, training)
    setup, client = Setup.of(seen), Client(seen)
    (layer,) = (layer for layer in client.readable if layer.name == LAYER)
    maps = client.maps(layer, rng())
    between = client_round(NETWORK, STATE, victims, LocalTraining(Sgd(0.05), 2, 2), rng()).sent
    passes = []
    for state in (STATE, {**STATE, **between}):
        model = NETWORK.build().train()
        model.load_state_dict(state)
        passes.append(normalize(model[: int(LAYER)](victims.images).flatten(1).double()))
    assert len(maps) == 4
    assert ((torch.cat(passes) @ maps.flatten(1).T).max(1).values > 0.999).all()
    assert seen.public_images is not None
    first = first_views(maps, 2, drift(setup, seen.public_images.images, LAYER, rng())).flatten(1)
    assert ((passes[0] @ first.T).max(1).values > 0.999).all()


def test_the_drift_is_that_of_public_features():
    seen = observed(phantoms(2, 3), LocalTraining(Sgd(0.05), 2, 2, epochs=2), public=6)
    setup = Setup.of(seen)
    assert seen.public_images is not None
    images = seen.public_images.images
    assert seen.update is not None
    still = Setup.of(observed(phantoms(2, 3), LocalTraining(Sgd(1e-9), 2, 2), public=6))
    assert drift(setup, images, LAYER, rng()).norm() > 10 * drift(still, images, LAYER, rng()).norm()
    assert public_features(setup, images, LAYER, rng()).shape[1] == len(drift(setup, images, LAYER, rng()))


def test_two_epochs_over_one_batch_are_told_apart():
    clients = [phantoms(3, seed) for seed in range(4)]
    seen = [observed(batch, LocalTraining(Sgd(0.05), 3, 3, epochs=2)) for batch in clients]
    guesses = ATTACKS.get("feature-decoder").run(seen, rng())
    assert seen[0].public_images is not None
    assert sum(len(guess.images) for guess in guesses if not guess.nothing) >= 9
    images, originals = [guess.images for guess in guesses], [batch.images for batch in clients]
    score = against_others(images, originals, seen[0].public_images.images.mean(0), rng())
    assert score.leak.low > 0
    assert score.told_apart.mean > 2 * score.chance

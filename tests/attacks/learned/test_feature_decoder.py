"""Features in closed form and a learned decoder, from end to end."""

from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import Ridge
from torch import nn

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.closed_form.span.pixels import Weights
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.learned.feature_decoder import FeatureDecoder, FeatureRegression
from fluoroscope.attacks.learned.feature_matching import FeatureMatching, simulated_steps
from fluoroscope.attacks.learned.public_features import public_features
from fluoroscope.data import Request, load
from fluoroscope.errors import Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.rng import seeded_globals
from fluoroscope.scores.null import against_others
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Adam, LabelledImages, LocalTraining, Network, Observation, PrivateBatch, Sgd

LAYER = "6"


def network() -> Network:
    """The least that shows its images: a convolution with more channels than they have positions, behind a ReLU."""
    with seeded_globals(1):
        body = [
            nn.Conv2d(1, 24, 5, 4, 2),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.Conv2d(24, 32, 3, 2, 1),
            nn.BatchNorm2d(32),
        ]
        head = [nn.ReLU(), nn.Conv2d(32, 96, 3, 1, 1), nn.BatchNorm2d(96), nn.ReLU(), nn.Flatten(), nn.Linear(1536, 2)]
        return Network.of(nn.Sequential(*body, *head), (1, 32, 32))


NETWORK = network()
STATE = NETWORK.build().state_dict()


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def phantoms(images: int, seed: int) -> PrivateBatch:
    return load("phantom/chest", Request(size=32, images=images, seed=seed)).batch


def observed(victims: PrivateBatch, training: LocalTraining, public: int = 60) -> Observation:
    own = phantoms(public, seed=98)
    record = client_round(NETWORK, STATE, victims, training, rng()).record
    return observe(
        record,
        THREATS.get("curious-server"),
        public_images=LabelledImages(own.images, own.labels, own.patients),
    )


def test_several_steps_are_told_apart():
    """Two steps of two images each: most are found, and their guesses are nearest to their own client's images."""
    clients = [phantoms(4, seed) for seed in range(4)]
    seen = [observed(batch, LocalTraining(Sgd(0.05), 4, 2)) for batch in clients]
    guesses = ATTACKS.get("feature-decoder").run(seen, rng())
    public = seen[0].public_images
    assert public is not None
    found = [len(guess.images) for guess in guesses if not guess.nothing]
    assert sum(found) >= 12
    originals = [batch.images for batch in clients]
    score = against_others([guess.images for guess in guesses], originals, public.images.mean(0), rng())
    assert score.leak.low > 0
    assert score.told_apart.mean > 2 * score.chance


def test_matching_brings_decoded_images_to_their_features():
    """Features of more values than images have pixels: two steps of two images come out nearer than they began."""
    with seeded_globals(1):
        body = [nn.Conv2d(1, 64, 5, 4, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 96, 3, 1, 1)]
        module = nn.Sequential(*body, nn.BatchNorm2d(96), nn.ReLU(), nn.Flatten(), nn.Linear(1536, 2))
    wide = Network.of(module, (1, 16, 16))
    own, victims = (
        replace(each, images=nn.functional.avg_pool2d(each.images, 2)) for each in (phantoms(30, 98), phantoms(4, 7))
    )
    done = client_round(wide, wide.build().state_dict(), victims, LocalTraining(Sgd(0.01), 4, 2), rng())
    public = LabelledImages(own.images, own.labels, own.patients)
    seen = observe(done.record, THREATS.get("curious-server"), public_images=public)
    (guess,) = ATTACKS.get("feature-decoder").run([seen], rng())
    assert guess.start is not None
    assert len(guess.images) == len(guess.start) == 4
    truth = victims.images.flatten(1)
    gaps = [torch.cdist(each.flatten(1), truth).min(1).values.mean() for each in (guess.images, guess.start)]
    assert gaps[0] < 0.8 * gaps[1]


def test_without_matching_the_regression_is_all():
    seen = observed(phantoms(4, 7), LocalTraining(Sgd(0.05), 4, 2))
    (guess,) = FeatureDecoder(matching=None).run([seen], rng())
    assert guess.start is not None
    assert torch.equal(guess.images, guess.start)


def test_matching_is_left_out_where_it_does_not_pay_on_public_images():
    seen = observed(phantoms(4, 7), LocalTraining(Sgd(0.05), 4, 2))
    worse = FeatureMatching(weights=Weights(statistics=0.0, variation=1e3, colour=0.0))  # flat images
    (guess,) = FeatureDecoder(matching=worse).run([seen], rng())
    assert guess.start is not None
    assert torch.equal(guess.images, guess.start)


def test_a_round_is_simulated_with_images_that_were_not_found_in_their_batches():
    setup = Setup.of(observed(phantoms(5, 7), LocalTraining(Sgd(0.05), 5, 2)))
    groups = [torch.tensor([2]), torch.tensor([0, 1])]
    simulated = simulated_steps(setup, groups, 3)
    assert simulated is not None
    assert [group.tolist() for group in simulated.groups] == [[0, 1], [2, 3]]
    assert simulated.statistics == {}, "of the third step nothing is known"
    assert simulated_steps(setup, [torch.tensor([0, 1, 2])], 3) is None, "a batch has two images"


def test_public_features_are_those_of_the_client_in_training_mode():
    seen = observed(phantoms(6, 0), LocalTraining(Sgd(0.05), 6, 3), public=6)
    setup = Setup.of(seen)
    assert seen.public_images is not None
    images, layer = seen.public_images.images, LAYER
    found = public_features(setup, images, layer, rng(4))
    model = NETWORK.build().train()
    model.load_state_dict(STATE)
    inputs = []
    model.get_submodule(layer).register_forward_pre_hook(lambda module, given: inputs.append(given[0]))
    for chosen in torch.randperm(6, generator=rng(4)).split(3):
        inputs.clear()
        model(images[chosen])
        torch.testing.assert_close(found[chosen], inputs[0].flatten(1))


def test_a_regression_says_what_its_features_are_worth():
    seen = observed(phantoms(2, 0), LocalTraining(Sgd(0.05), 2, 1))
    setup, public = Setup.of(seen), seen.public_images
    assert public is not None
    regression = FeatureRegression.learned(setup, public, LAYER, rng())
    others = phantoms(40, seed=97).images
    gaps = regression(public_features(setup, others, LAYER, rng())) - others
    share = gaps.square().sum() / (public.images.mean(0) - others).square().sum()
    assert regression.unexplained < 0.8
    assert regression.unexplained == pytest.approx(float(share), abs=0.1)


def test_noise_leaves_nothing_and_says_so():
    seen = observed(phantoms(2, 0), LocalTraining(Sgd(0.05), 2, 1))
    assert seen.update is not None
    noised = {name: value + 0.1 * torch.randn(value.shape, generator=rng(1)) for name, value in seen.update.items()}
    (guess,) = ATTACKS.get("feature-decoder").run([replace(seen, update=noised)], rng())
    assert "no layer of this update of 2 images in 2 steps" in guess.nothing


def test_several_steps_of_adam_are_refused():
    with pytest.raises(Unsupported, match="from one step, or from several of SGD"):
        ATTACKS.get("feature-decoder").run([observed(phantoms(2, 0), LocalTraining(Adam(1e-3), 2, 1, epochs=2))], rng())


def test_a_regression_is_that_of_scikit_learn():
    """Features of norm 1, about their mean, and the strength that was chosen."""
    seen = observed(phantoms(2, 0), LocalTraining(Sgd(0.05), 2, 1), public=30)
    setup, public = Setup.of(seen), seen.public_images
    assert public is not None
    regression = FeatureRegression.learned(setup, public, LAYER, rng())
    features = nn.functional.normalize(public_features(setup, public.images, LAYER, rng()).double())
    centred = features - features.mean(0)
    strength = regression.ridge.strength * float(centred.square().sum(1).mean())
    expected = Ridge(alpha=strength).fit(features.numpy(), public.images.flatten(1).double().numpy())
    others = public_features(setup, phantoms(4, seed=97).images, LAYER, rng())
    found = regression(7 * others.unflatten(1, (32, 4, 4)))
    wanted = torch.from_numpy(expected.predict(nn.functional.normalize(others.double()).numpy())).clamp(0, 1).float()
    torch.testing.assert_close(found.flatten(1), wanted, atol=1e-4, rtol=1e-3)

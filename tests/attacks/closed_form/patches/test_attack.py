"""One image through a vision transformer, exactly; batches and other networks are refused or nothing."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.closed_form.patches.embedding import patch_embeddings
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.data import Request, load
from fluoroscope.errors import Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.models import Architecture
from fluoroscope.rng import seeded_globals
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Adam, LocalTraining, Network, Normalisation, Observation, PrivateBatch, Sgd

VIT = Architecture("vit-small", 1, 2, 32)


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def phantom(size: int = 32) -> PrivateBatch:
    return load("phantom/chest", Request(size=size, images=1, seed=3)).batch


def seen(network: Network, training: LocalTraining, batch: PrivateBatch | None = None) -> Observation:
    state = network.build().state_dict()
    record = client_round(network, state, batch or phantom(), training, rng()).record
    return observe(record, THREATS.get("curious-server"))


TRAININGS = {
    "one step": LocalTraining(Sgd(0.1), 1, 1),
    "three epochs with momentum and decay": LocalTraining(Sgd(0.01, momentum=0.9, weight_decay=0.01), 1, 1, epochs=3),
    "one decayed step": LocalTraining(Sgd(0.1, weight_decay=0.01), 1, 1),
    "normalised": LocalTraining(Sgd(0.1), 1, 1, normalisation=Normalisation((0.4,), (0.2,))),
}


@pytest.mark.parametrize("training", TRAININGS.values(), ids=TRAININGS)
def test_the_image_is_the_true_one(training):
    (guess,) = ATTACKS.get("april").run([seen(VIT, training)], rng())
    assert guess.nothing == ""
    torch.testing.assert_close(guess.images, phantom().images, atol=0.05, rtol=0)


def test_an_odd_size_is_framed_and_its_image_found():
    (guess,) = ATTACKS.get("april").run(
        [seen(Architecture("vit-small", 1, 2, 30), LocalTraining(Sgd(0.1), 1, 1), phantom(30))], rng()
    )
    torch.testing.assert_close(guess.images, phantom(30).images, atol=0.05, rtol=0)


@pytest.mark.parametrize("embedding", ["conv", "perceptron"])
def test_monais_transformer_is_read_too(embedding):
    nets = pytest.importorskip("monai.networks.nets")
    pytest.importorskip("einops")

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.vit = nets.ViT(
                1,
                (32, 32),
                (8, 8),
                hidden_size=96,
                mlp_dim=96,
                num_layers=2,
                num_heads=4,
                proj_type=embedding,
                classification=True,
                num_classes=2,
                post_activation="none",
                spatial_dims=2,
            )

        def forward(self, images):
            return self.vit(images)[0]

    with seeded_globals(0):
        network = Network.of(Logits(), (1, 32, 32))
    (guess,) = ATTACKS.get("april").run([seen(network, LocalTraining(Sgd(0.1), 1, 1))], rng())
    torch.testing.assert_close(guess.images, phantom().images, atol=0.05, rtol=0)


def test_every_pixel_has_its_place():
    (found,) = patch_embeddings(Setup.of(seen(VIT, LocalTraining(Sgd(0.1), 1, 1))))
    assert found.positions == ("positions.weight",)
    image = torch.arange(1024.0).view(1, 1, 32, 32)
    patches = nn.functional.unfold(image, 4, stride=4)[0].T
    torch.testing.assert_close(found.image(patches, 1024), image.flatten())


def test_what_it_cannot_read_is_named():
    batch = load("phantom/chest", Request(size=32, images=2, seed=3)).batch
    with pytest.raises(Unsupported, match="inverts one image"):
        ATTACKS.get("april").run([seen(VIT, LocalTraining(Sgd(0.1), 2, 2), batch)], rng())
    with pytest.raises(Unsupported, match="inverts one image"):
        ATTACKS.get("april").run([seen(VIT, LocalTraining(Adam(0.1), 1, 1))], rng())


def test_noise_and_networks_without_patches_leave_nothing():
    observed = seen(VIT, LocalTraining(Sgd(0.1), 1, 1))
    assert observed.update is not None
    noised = {name: value + torch.randn(value.shape, generator=rng()) for name, value in observed.update.items()}
    (guess,) = ATTACKS.get("april").run([replace(observed, update=noised)], rng())
    assert "no one image explains this update" in guess.nothing
    (guess,) = ATTACKS.get("april").run([seen(Architecture("lenet5", 1, 2, 32), LocalTraining(Sgd(0.1), 1, 1))], rng())
    assert "no embedding of patches" in guess.nothing

"""The embedder against the network it wraps."""

import math

import pytest
import torch

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.models import Architecture
from fluoroscope.models.embedder import ImageNetEmbedder


@pytest.fixture(scope="module")
def embed():
    return ImageNetEmbedder(size=64, images_at_once=2)


def images(n=3, channels=3, size=64):
    return torch.rand(n, channels, size, size, generator=torch.Generator().manual_seed(n))


def test_it_is_the_networks_features_however_many_at_once(embed):
    network = Architecture("efficientnet-lite0", 3, 1000, 64).build().eval()
    with torch.no_grad():
        seen = network.blocks[:5](network.stem((images() * 255 - 127) / 128))
    places = [seen[:, :, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean((2, 3)) for i in range(4) for j in range(4)]
    expected = torch.stack(places, 2).flatten(1)
    assert embed(images()).shape == (3, 640)
    torch.testing.assert_close(embed(images()), expected, rtol=1e-4, atol=1e-4)


def test_a_grey_image_is_its_rgb_copy(embed):
    grey = images(channels=1)
    assert torch.equal(embed(grey), embed(grey.repeat(1, 3, 1, 1)))


def test_images_are_brought_to_the_size(embed):
    flat = torch.full((1, 1, 28, 28), 0.3)
    torch.testing.assert_close(embed(flat), embed(torch.full((1, 1, 100, 100), 0.3)), rtol=1e-4, atol=1e-4)
    assert ImageNetEmbedder().size == 64


def test_values_are_clipped_as_a_file_would(embed):
    wild = 3 * images() - 1
    assert torch.equal(embed(wild), embed(wild.clamp(0, 1)))


def test_a_diverged_image_has_no_embedding_and_spoils_no_other(embed):
    given = images(4)
    given[1] = math.nan
    assert embed(given).isnan().any(1).tolist() == [False, True, False, False]


def test_it_draws_and_learns_nothing(embed):
    state = torch.random.get_rng_state()
    given = images().requires_grad_()
    first = ImageNetEmbedder(size=64)(given)
    assert not first.requires_grad
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.testing.assert_close(embed(given), first, rtol=1e-4, atol=1e-4)


def test_no_images_have_no_embeddings(embed):
    assert embed(images(0)).shape == (0, 640)


def test_what_cannot_be_embedded_is_named(embed):
    with pytest.raises(BadInput, match=r"shape \(2, 3, 64, 32\)"):
        embed(images(2)[..., :32])
    with pytest.raises(BadInput, match=r"shape \(3, 64, 64\)"):
        embed(images()[0])
    with pytest.raises(Misconfigured, match="at least 1, not 0"):
        ImageNetEmbedder(images_at_once=0)

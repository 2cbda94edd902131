"""What every registered architecture promises, third parties' included."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from opacus import GradSampleModule
from safetensors.torch import save_file
from torch import nn
from torch.func import functional_call

from fluoroscope.errors import Misconfigured
from fluoroscope.models import MODELS, Architecture

LARGE = {"efficientnet-lite0", "resnet18", "resnet18-gn", "resnet18-sigmoid"}  # 28 pixels only: seconds matter
CASES = [
    Architecture(name, channels, classes, size)
    for name, channels, classes, size in product(MODELS, (1, 3), (2, 4), (28, 64))
    if size == 28 or name not in LARGE
]
ONE_EACH = [Architecture(name, channels=1, classes=2, size=28) for name in MODELS]
WITHOUT_BATCHNORM = ["lenet5", "p3-cnn", "resnet18-gn", "vit-small"]


def label(architecture):
    return f"{architecture.name}-{architecture.channels}x{architecture.size}-{architecture.classes}"


def some_images(architecture, n=2, seed=0):
    shape = (n, architecture.channels, architecture.size, architecture.size)
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


each_case = pytest.mark.parametrize("architecture", CASES, ids=label)
each_model = pytest.mark.parametrize("architecture", ONE_EACH, ids=label)
each_quick_model = pytest.mark.parametrize(
    "architecture",
    [pytest.param(each, marks=pytest.mark.slow) if each.name == "resnet18-sigmoid" else each for each in ONE_EACH],
    ids=label,
)
"""Of these two, resnet18 has the same layers but for its bends."""


@each_case
def test_one_finite_logit_per_class_and_the_images_untouched(architecture):
    model = architecture.build()
    images = some_images(architecture)
    before = images.clone()
    with torch.no_grad():
        logits = model(images)
    assert model.training
    assert logits.shape == (2, architecture.classes)
    assert logits.isfinite().all()
    assert torch.equal(images, before)


@each_model
def test_the_seed_decides_the_weights(architecture):
    once, again, other = (architecture.build(seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert any(not torch.equal(once[name], other[name]) for name in once)


@each_quick_model
def test_the_gradient_has_a_gradient_with_respect_to_the_images(architecture):
    model = architecture.build()
    images = some_images(architecture).requires_grad_()
    loss = F.cross_entropy(model(images), torch.tensor([0, 1]))
    gradients = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    size = sum((g.pow(2).sum() for g in gradients), start=torch.zeros(()))
    (second,) = torch.autograd.grad(size, images)
    assert second.isfinite().all()
    assert second.abs().max() > 0


@each_quick_model
def test_works_as_a_function_of_its_weights(architecture):
    model = architecture.build()
    images = some_images(architecture)
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights):
        own = {name: b.clone() for name, b in buffers.items()}  # engines.md: BatchNorm writes its buffers in place
        return F.cross_entropy(functional_call(model, {**weights, **own}, (images,)), torch.tensor([0, 1]))

    gradients = torch.func.grad(loss)(parameters)
    assert gradients.keys() == parameters.keys()
    assert all(g.isfinite().all() for g in gradients.values())
    model.eval()
    shifted = {name: p + 0.01 for name, p in parameters.items()}
    expected = functional_call(model, shifted, (images,))
    assert all(torch.equal(b, buffers[name]) for name, b in model.named_buffers())
    model.load_state_dict({**buffers, **shifted})
    torch.testing.assert_close(model(images), expected)


@each_model
def test_starts_again_from_its_own_saved_state(architecture, tmp_path):
    model = architecture.build(seed=1)
    file = tmp_path / "state.safetensors"
    save_file(model.state_dict(), file)
    restored = Architecture(architecture.name, 1, 2, 28, weights=str(file)).build(seed=2)
    state = restored.state_dict()
    assert list(state) == list(model.state_dict())
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())


@each_model
def test_trains_on_a_single_image(architecture):
    """P1's client 9. At 28 pixels BatchNorm could not: a deep network has one pixel left there."""
    larger = Architecture(architecture.name, channels=1, classes=2, size=64)
    with torch.no_grad():
        assert larger.build()(some_images(larger, n=1)).isfinite().all()


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # Opacus's own: the images need no gradient
@pytest.mark.parametrize("name", WITHOUT_BATCHNORM)
def test_opacus_takes_a_gradient_per_image(name):
    """Against the slow loop: one image at a time."""
    architecture = Architecture(name, channels=1, classes=2, size=28)
    model = architecture.build()
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0  # else the two ways drop different units
    images, labels = some_images(architecture), torch.tensor([0, 1])
    slow = [
        torch.autograd.grad(F.cross_entropy(model(images[i : i + 1]), labels[i : i + 1]), list(model.parameters()))
        for i in range(2)
    ]
    hooked = GradSampleModule(model)
    F.cross_entropy(hooked(images), labels).backward()
    for index, parameter in enumerate(model.parameters()):
        expected = torch.stack([slow[0][index], slow[1][index]])
        torch.testing.assert_close(parameter.grad_sample, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"size": 27}, "28 or more, not 27"),
        ({"channels": 0}, "1 channel or more, not 0"),
        ({"classes": 1}, "2 classes"),
    ],
)
def test_what_cannot_be_built_is_named(name, setting, words):
    with pytest.raises(Misconfigured, match=words):
        Architecture(**({"name": name, "channels": 1, "classes": 2, "size": 28} | setting)).build()


@pytest.mark.parametrize("change", [{"classes": 10**12}, {"channels": 10**9}, {"size": 10**9}])
def test_weights_are_counted_before_they_are_made(change):
    with pytest.raises(Misconfigured, match=r"lenet5 for .* has more than 1,073,741,824 weights"):
        Architecture(**{"name": "lenet5", "channels": 1, "classes": 2, "size": 28, **change}).build()

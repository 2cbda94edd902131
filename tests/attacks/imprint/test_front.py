"""The dense layers that a server puts before the agreed network."""

import pytest
import torch

from fluoroscope.errors import Misconfigured
from fluoroscope.models import Architecture
from fluoroscope.models.front import DenseFront, Front, FrontedNetwork

SHAPES = [(1, 28), (3, 32)]


def images_of(channels, size, n=3):
    return torch.rand((n, channels, size, size), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("channels", "size"), SHAPES)
@pytest.mark.parametrize("front", [Front(5), Front(5, "hardtanh", 0.5), Front(5, gate=True)], ids=str)
def test_images_in_images_out_and_one_logit_a_class(channels, size, front):
    network = FrontedNetwork(Architecture("lenet5", channels, 4, size), front).build()
    images = images_of(channels, size)
    assert network.training
    assert network.front(images).shape == images.shape
    assert network(images).shape == (3, 4)


def test_state_names_and_shapes_without_a_gate():
    agreed = Architecture("lenet5", 1, 2, 28)
    shapes = {
        name: tuple(v.shape)
        for name, v in FrontedNetwork(Architecture("lenet5", 1, 2, 28), Front(5)).build().state_dict().items()
    }
    added = {
        "front.first.weight": (5, 784),
        "front.first.bias": (5,),
        "front.second.weight": (784, 5),
        "front.second.bias": (784,),
    }
    assert shapes == added | {f"network.{name}": tuple(v.shape) for name, v in agreed.build().state_dict().items()}


def test_state_names_and_shapes_with_a_gate():
    front = DenseFront((3, 4, 4), Front(5, gate=True))
    assert {name: tuple(value.shape) for name, value in front.state_dict().items()} == {
        "first.weight": (5, 48),
        "first.bias": (5,),
        "gate.sum.weight": (1, 5),
        "gate.sum.bias": (1,),
        "second.weight": (48, 1),
        "second.bias": (48,),
    }


@pytest.mark.parametrize("front", [Front(6), Front(6, "hardtanh", 0.1), Front(6, gate=True)], ids=str)
def test_the_front_equals_its_formula(front):
    """Image by image and neuron by neuron."""
    module = DenseFront((1, 4, 4), front)
    state, images = module.state_dict(), images_of(1, 4)
    for image, made in zip(images, module(images), strict=True):
        x = image.flatten()
        neurons = []
        for row, bias in zip(state["first.weight"], state["first.bias"], strict=True):
            value = max(float(row @ x + bias), 0.0)
            neurons.append(min(value, front.ceiling) if front.activation == "hardtanh" else value)
        hidden = torch.tensor(neurons)
        if front.gate:
            hidden = (state["gate.sum.weight"] @ hidden + state["gate.sum.bias"]).clamp_min(0)
        expected = state["second.weight"] @ hidden + state["second.bias"]
        torch.testing.assert_close(made.flatten(), expected)


def first_gradient(module, images):
    (gradient,) = torch.autograd.grad(module(images).sum(), module.first.weight)
    return gradient


def test_a_shut_gate_passes_neither_image_nor_gradient():
    module = DenseFront((1, 4, 4), Front(6, gate=True))
    images = images_of(1, 4)
    with torch.no_grad():
        module.first.bias.fill_(10)
        module.gate.sum.weight.fill_(1)
        module.gate.sum.bias.fill_(1)
    assert first_gradient(module, images).abs().max() > 0
    with torch.no_grad():
        module.gate.sum.bias.fill_(-1e6)
    assert not first_gradient(module, images).any()
    assert torch.equal(module(images), module.second.bias.view(1, 1, 4, 4).expand_as(images))


def test_a_hard_tanh_passes_gradient_between_0_and_its_ceiling_only():
    module = DenseFront((1, 2, 2), Front(3, "hardtanh", ceiling=0.25))
    with torch.no_grad():
        module.first.weight.fill_(0.25)  # the mean of four pixels
        module.first.bias.copy_(torch.tensor([-0.6, -0.4, -0.1]))
    image = torch.full((1, 1, 2, 2), 0.5)
    torch.testing.assert_close(module.activation(module.first(image.flatten(1))), torch.tensor([[0.0, 0.1, 0.25]]))
    assert first_gradient(module, image).any(1).tolist() == [False, True, False]
    relu = DenseFront((1, 2, 2), Front(3))
    relu.load_state_dict(module.state_dict())
    assert first_gradient(relu, image).any(1).tolist() == [False, True, True]


@pytest.mark.parametrize("neurons", [0, -3])
def test_a_front_without_neurons_is_refused(neurons):
    with pytest.raises(Misconfigured, match=f"at least 1 neuron, not {neurons}"):
        FrontedNetwork(Architecture("lenet5", 1, 2, 28), Front(neurons)).build()


@pytest.mark.parametrize("front", [Front(5), Front(5, gate=True)], ids=str)
def test_a_network_behind_a_front_is_the_front_and_then_the_network(front):
    agreed = Architecture("lenet5", 1, 2, 28)
    plain, whole = agreed.build(seed=3), FrontedNetwork(Architecture("lenet5", 1, 2, 28), front).build(seed=3)
    assert all(torch.equal(value, plain.state_dict()[name]) for name, value in whole.network.state_dict().items())
    images = images_of(1, 28)
    assert torch.equal(whole(images), plain(whole.front(images)))
    assert [name for name, _ in whole.named_children()] == ["front", "network"]

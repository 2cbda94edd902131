"""P3's and P4's networks against the papers' numbers, and the transformer's attention against torch's."""

import pytest
import torch
from torch import nn

from fluoroscope.models import Architecture
from fluoroscope.models.vit import Attention


def parameters(name, channels, classes, size):
    return sum(p.numel() for p in Architecture(name, channels, classes, size).build().parameters())


def test_p4_sizes():
    """P4 section V: LeNet-5 has about 85,000 parameters, ResNet-18 about 14.5 M (CIFAR-100, 32x32)."""
    assert parameters("lenet5", 3, 100, 32) == 85_036
    assert parameters("resnet18-sigmoid", 3, 100, 32) == 14_445_732


def test_p3_size_is_what_keras_counts():
    by_layer = [320, 18_496, 73_856, 28 * 28 * 128 * 64 + 64, 2_080, 132]
    assert parameters("p3-cnn", 1, 4, 128) == sum(by_layer)


@pytest.mark.parametrize("name", ["lenet5", "resnet18-sigmoid"])
def test_p4_draws_every_parameter_from_minus_half_to_half(name):
    for parameter in Architecture(name, 1, 2, 28).build().parameters():
        assert parameter.abs().max() <= 0.5
        if parameter.numel() > 1000:
            assert parameter.mean().abs() < 0.05
            assert parameter.std().item() == pytest.approx(12**-0.5, rel=0.05)


def test_p4_networks_have_a_smooth_second_derivative():
    """Their activations are sigmoids: a ReLU's second derivative is zero."""
    for name in ("lenet5", "resnet18-sigmoid"):
        modules = list(Architecture(name, 1, 2, 28).build().modules())
        assert any(isinstance(m, nn.Sigmoid) for m in modules)
        assert not any(isinstance(m, nn.ReLU | nn.MaxPool2d) for m in modules)
        if name == "resnet18-sigmoid":
            assert all(m.stride == (1, 1) for m in modules if isinstance(m, nn.Conv2d))


def test_p3_starts_as_keras_does():
    for name, parameter in Architecture("p3-cnn", 1, 4, 28).build().named_parameters():
        if name.endswith("bias"):
            assert parameter.abs().max() == 0
        else:
            field = parameter[0, 0].numel() if parameter.ndim == 4 else 1
            bound = (6 / ((parameter.shape[0] + parameter.shape[1]) * field)) ** 0.5
            assert 0.8 * bound < parameter.abs().max() <= bound


def test_attention_equals_torchs():
    ours, theirs = Attention(12, heads=3), nn.MultiheadAttention(12, num_heads=3, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.qkv.weight)
        theirs.in_proj_bias.copy_(ours.qkv.bias)
        theirs.out_proj.load_state_dict(ours.out.state_dict())
    x = torch.rand(2, 5, 12)
    torch.testing.assert_close(ours(x), theirs(x, x, x, need_weights=False)[0])


@pytest.mark.parametrize("size", [28, 29, 64, 71])
def test_the_transformer_sees_every_pixel(size):
    model = Architecture("vit-small", 1, 2, size).build()
    images = torch.rand(1, 1, size, size, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(images)[0, 0], images)
    assert (gradient != 0).all()

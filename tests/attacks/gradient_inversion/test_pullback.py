"""The tangent sweeps against autograd's double backward, and both against the client's own training."""

import copy
from functools import partial
from statistics import median

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fluoroscope.attacks.gradient_inversion.pullback import (
    AutogradPullback,
    Statistics,
    StatisticsPullback,
    TangentPullback,
    pullback_for,
)
from fluoroscope.attacks.gradient_inversion.pullback.autograd import AutogradTape
from fluoroscope.attacks.gradient_inversion.pullback.tangent import TangentTape
from fluoroscope.errors import Unsupported
from fluoroscope.federation.local_training import train_on
from fluoroscope.models import Architecture
from fluoroscope.models.modes import client_mode
from fluoroscope.types import CrossEntropy, LocalTraining, Sgd

CLASSES = 3


def network(name, size, batchnorm="train", channels=1):
    weights = "random" if name == "efficientnet-lite0" else None
    model = Architecture(name, channels, CLASSES, size, weights).build(seed=1)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return client_mode(model, LocalTraining(Sgd(0.1), images=2, batch_size=2, batchnorm=batchnorm))


def state_of(model, dtype=torch.float64):
    """Random where the initialisation is 0 or 1, so that every term counts."""
    rng = torch.Generator().manual_seed(2)
    state = {k: v.detach().clone() for k, v in model.state_dict().items()}
    for name, value in state.items():
        if value.ndim == 1 and value.is_floating_point():
            value += 0.3 * torch.rand(value.shape, generator=rng)
        state[name] = value.to(dtype) if value.is_floating_point() else value
    return state


def batch(n, size, channels=1, dtype=torch.float64, seed=3):
    rng = torch.Generator().manual_seed(seed)
    # Free labels need not sum to 1.
    return torch.rand(n, channels, size, size, generator=rng).to(dtype), torch.rand(n, CLASSES, generator=rng).to(dtype)


def cotangents(tape):
    rng = torch.Generator().manual_seed(4)

    def like(value):
        return torch.randn(value.shape, generator=rng).to(value.dtype)

    gradients = {name: like(value) for name, value in tape.gradients.items()}
    return gradients, {name: Statistics(like(mean), like(var)) for name, (mean, var) in tape.statistics.items()}


def assert_close(found, expected, tolerance=1e-9):
    """Relative to each one's largest value, or 1e-3 of all: a bias before a BatchNorm has a gradient of 0."""
    found, expected = list(found), list(expected)
    floor = 1e-3 * max((float(b.abs().max()) for b in expected), default=0)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert float((a - b).abs().max()) <= tolerance * max(float(b.abs().max()), floor)


def assert_agree(model, state, images, labels, tolerance=1e-9):
    """The whole contract, for one module and batch."""
    tangent, autograd = TangentPullback(model), AutogradPullback(model)
    fast, slow = tangent.forward(state, images, labels), autograd.forward(state, images, labels)
    assert_close([fast.loss], [slow.loss], tolerance)
    assert fast.gradients.keys() == slow.gradients.keys()
    assert_close(fast.gradients.values(), slow.gradients.values(), tolerance)
    assert fast.statistics.keys() == slow.statistics.keys()
    for name, pair in slow.statistics.items():
        assert_close(fast.statistics[name], pair, tolerance)
    gradients, statistics = cotangents(slow)
    for r, s in ((gradients, statistics), ({}, statistics), (gradients, {}), ({}, {})):
        found = tangent.backward(fast, r, s)  # the same tape each time
        assert_close(found, autograd.backward(slow, r, s), tolerance)
    return slow, statistics, tangent.backward(fast, {}, statistics)[0]


@pytest.mark.parametrize(
    ("name", "n", "size", "batchnorm"),
    [
        ("lenet5", 3, 32, "train"),
        ("small-cnn", 3, 33, "train"),
        ("small-cnn", 2, 32, "eval"),
        ("p3-cnn", 1, 32, "train"),
        ("resnet18", 1, 40, "train"),
        ("resnet18", 2, 40, "train"),
        ("resnet18", 1, 40, "eval"),
        ("resnet18-gn", 2, 40, "train"),
        pytest.param("efficientnet-lite0", 2, 40, "train", marks=pytest.mark.slow),
    ],
)
def test_tangent_equals_autograd(name, n, size, batchnorm):
    model = network(name, size, batchnorm)
    assert_agree(model, state_of(model), *batch(n, size))


@pytest.mark.parametrize(
    ("layer", "features"),
    [
        (nn.Conv2d(4, 5, 3, stride=4), 20),
        (nn.Conv2d(4, 5, (5, 3), stride=(3, 5), padding=(1, 0), bias=False), 30),
        (nn.Conv2d(4, 4, 3, stride=4, groups=2), 16),
        (nn.Conv2d(4, 5, 3, stride=4, dilation=2), 20),
    ],
)
def test_a_single_image_with_few_places(layer, features):
    """Its products go another way, where the convolution is a plain one."""
    model = Wrapped(layer, features)
    assert_agree(model, state_of(model), *batch(1, 11, channels=2))


@pytest.mark.slow
def test_tangent_equals_autograd_in_the_sigmoid_resnet():
    model = network("resnet18-sigmoid", 28)
    model.fc = nn.Linear(512 * 2 * 2, CLASSES)  # for 8 pixels: at 28 the double backward takes many seconds
    assert_agree(model, state_of(model), *batch(2, 8))


class Wrapped(nn.Module):
    """A body of any kind on (n, 4, 9, 9), between a convolution and the logits."""

    def __init__(self, body, features):
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3)
        self.body = body
        self.fc = nn.Linear(features, CLASSES)

    def forward(self, x):
        return self.fc(self.body(self.stem(x)).flatten(1))


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


RULES = {
    "convolution": nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=2),
    "grouped convolution": nn.Conv2d(4, 8, (3, 1), stride=(1, 2), groups=2, bias=False),
    "same convolution": nn.Conv2d(4, 3, 3, padding="same"),
    "padding": Function(lambda x: F.pad(x, (1, 2, 0, 1))),
    "batch norm": nn.Sequential(nn.Sigmoid(), nn.BatchNorm2d(4)),
    "batch norm without scale": nn.BatchNorm2d(4, affine=False),
    "batch norm without buffers": nn.BatchNorm2d(4, track_running_stats=False).eval(),
    "frozen batch norm": nn.BatchNorm2d(4).eval(),
    "frozen batch norm without scale": nn.BatchNorm2d(4, affine=False).eval(),
    "flat batch norm": nn.Sequential(nn.Flatten(), nn.BatchNorm1d(4 * 81)),
    "group norm": nn.GroupNorm(2, 4),
    "group norm without scale": nn.GroupNorm(2, 4, affine=False),
    "linear": nn.Sequential(nn.Flatten(), nn.Linear(4 * 81, 7), nn.Sigmoid(), nn.Linear(7, 5, bias=False)),
    "relu": nn.ReLU(inplace=True),
    "relu6": nn.Sequential(nn.BatchNorm2d(4), Function(lambda x: 6 * x), nn.ReLU6()),
    "hardtanh": nn.Hardtanh(-0.1, 0.2),
    "sigmoid": nn.Sigmoid(),
    "two sigmoids": nn.Sequential(nn.Sigmoid(), nn.Sigmoid()),
    "sum": Function(lambda x: x.sigmoid() + x),
    "difference": Function(lambda x: torch.sub(x, x.sigmoid(), alpha=2)),
    "numbers": Function(lambda x: (3 * x - 1) / 2 + 0.5),
    "max pool": nn.MaxPool2d(3, stride=2, padding=1),
    "average pool": nn.AvgPool2d(2, padding=1, count_include_pad=False),
    "adaptive average pool": nn.AdaptiveAvgPool2d((2, 3)),
    "mean": Function(lambda x: x.sigmoid().mean((-1, 2))),
    "mean, kept": Function(lambda x: x.sigmoid().mean(1, keepdim=True)),
    "dropout in evaluation": nn.Dropout(0.5).eval(),
}


def wrapped(body):
    body = copy.deepcopy(body)
    with torch.no_grad():
        features = copy.deepcopy(body)(torch.rand(2, 4, 9, 9)).flatten(1).shape[1]
    torch.manual_seed(0)
    return Wrapped(body, features)


@pytest.mark.parametrize("rule", RULES)
def test_each_rule(rule):
    model = wrapped(RULES[rule])
    assert_agree(model, state_of(model), *batch(3, 11, channels=2))


@pytest.mark.parametrize("some", ["stem.weight", "stem.bias", "body.1.weight", "body.1.bias", "fc.weight", "fc.bias"])
def test_one_parameter_moves_alone(some):
    model = wrapped(nn.Sequential(nn.Sigmoid(), nn.BatchNorm2d(4), nn.Sigmoid(), nn.GroupNorm(2, 4)))
    state, (images, labels) = state_of(model), batch(2, 11, channels=2)
    tangent, autograd = TangentPullback(model), AutogradPullback(model)
    fast, slow = tangent.forward(state, images, labels), autograd.forward(state, images, labels)
    gradients = {some: cotangents(slow)[0][some]}
    assert_close(tangent.backward(fast, gradients, {}), autograd.backward(slow, gradients, {}))


@pytest.mark.parametrize("kind", [TangentPullback, AutogradPullback])
@pytest.mark.parametrize("name", ["small-cnn", "resnet18"])
def test_the_step_is_the_clients(kind, name):
    """Gradients are the change of one SGD step over -lr; statistics are what it mixed into the running buffers."""
    lr, m, size = 0.5, 0.1, 40
    training = LocalTraining(Sgd(lr), images=2, batch_size=2, batchnorm_momentum=m)
    model = network(name, size)
    state, (images, labels) = state_of(model), batch(2, size)
    after = train_on(model, state, [(images, labels)], training, torch.Generator().manual_seed(0)).state
    tape = kind(model).forward(state, images, labels)
    assert_close(tape.gradients.values(), [(after[k] - state[k]) / -lr for k in tape.gradients])
    inputs = {}
    for layer, module in model.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            module.register_forward_hook(lambda _, x, __, layer=layer: inputs.update({layer: x[0].numel()}))
    torch.func.functional_call(model, {k: v.clone() for k, v in state.items()}, (images,))
    assert tape.statistics.keys() == inputs.keys()
    for layer, (mean, var) in tape.statistics.items():
        n = inputs[layer] // len(mean)
        mixed = [
            (1 - m) * state[f"{layer}.running_mean"] + m * mean,
            (1 - m) * state[f"{layer}.running_var"] + m * var * n / (n - 1),
        ]
        assert_close(mixed, [after[f"{layer}.running_mean"], after[f"{layer}.running_var"]])


@pytest.mark.parametrize("kind", [TangentPullback, AutogradPullback, partial(pullback_for, loss=CrossEntropy())])
def test_nothing_is_changed(kind):
    model = network("small-cnn", 32)
    state, (images, labels) = state_of(model), batch(2, 32)
    everything = [*state.values(), images, labels, *model.state_dict().values()]
    before, training = copy.deepcopy(everything), [module.training for module in model.modules()]
    pullback = kind(model)
    tape = pullback.forward(state, images, labels)
    gradients, statistics = cotangents(tape)
    kept = copy.deepcopy((gradients, tape.gradients))
    first = pullback.backward(tape, gradients, statistics)
    again = pullback.backward(tape, gradients, statistics)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(everything, before, strict=True))
    for now, then in zip((gradients, tape.gradients), kept, strict=True):
        assert all(torch.equal(now[name], then[name]) for name in then)
    assert [module.training for module in model.modules()] == training
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert not any(value.requires_grad for value in [tape.loss, *tape.gradients.values(), *first])


@pytest.mark.parametrize(
    "name", ["small-cnn", *(pytest.param(each, marks=pytest.mark.slow) for each in ("resnet18", "resnet18-gn"))]
)
def test_float32_loses_no_more_than_autograd_does(name):
    """Over three batches: where a ReLU's input is near 0, the precisions disagree about its sign, for both alike."""
    model = network(name, 64)
    errors = {TangentPullback: [], AutogradPullback: []}
    for seed in range(3):
        exact, _ = pulled(TangentPullback(model), model, torch.float64, seed)
        for kind, found in errors.items():
            rounded, tape = pulled(kind(model), model, torch.float32, seed)
            assert all(value.dtype == torch.float32 for value in tape.gradients.values())
            found.append(float((rounded.double() - exact).norm() / exact.norm()))
    tangent, autograd = (median(found) for found in errors.values())
    assert tangent < 3 * autograd


def pulled(pullback, model, dtype, seed):
    """The images' derivative for the batch of this seed, and the tape."""
    tape = pullback.forward(state_of(model, dtype), *batch(1, 64, dtype=dtype, seed=seed))
    return pullback.backward(tape, *cotangents(tape))[0], tape


def test_statistics_alone():
    for name in ("small-cnn", "resnet18", "resnet18-gn"):
        model = network(name, 40)
        state, (images, labels) = state_of(model), batch(2, 40)
        autograd, alone = AutogradPullback(model), StatisticsPullback(model)
        slow, tape = autograd.forward(state, images, labels), alone.forward(state, images)
        assert tape.statistics.keys() == slow.statistics.keys()
        _, statistics = cotangents(slow)
        for some in (statistics, dict(list(statistics.items())[:1]), {}):
            assert_close([alone.backward(tape, some)], [autograd.backward(slow, {}, some)[0]])
        for layer, pair in slow.statistics.items():
            assert_close(tape.statistics[layer], pair)


class Attended(nn.Module):
    """Has an operation without a rule, and BatchNorm."""

    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm2d(1)
        self.fc = nn.Linear(1, CLASSES)

    def forward(self, x):
        return self.fc((self.bn(x) * x.softmax(-1)).sum((2, 3)))


def test_an_operation_without_a_rule_falls_back():
    model = Attended()
    state, (images, labels) = state_of(model), batch(2, 8)
    with pytest.raises(Unsupported, match=r"no tangent rule.*AutogradPullback"):
        TangentPullback(model).forward(state, images, labels)
    chosen, autograd = pullback_for(model, CrossEntropy()), AutogradPullback(model)
    tape, slow = chosen.forward(state, images, labels), autograd.forward(state, images, labels)
    assert isinstance(tape, AutogradTape)
    r, s = cotangents(slow)
    assert_close(chosen.backward(tape, r, s), autograd.backward(slow, r, s))
    alone = StatisticsPullback(model)
    assert_close([alone.backward(alone.forward(state, images), s)], [autograd.backward(slow, {}, s)[0]])


def test_the_fast_one_is_chosen_where_it_can_be():
    model = network("lenet5", 32)
    assert isinstance(pullback_for(model, CrossEntropy()).forward(state_of(model), *batch(1, 32)), TangentTape)


def test_random_dropout_has_no_tangent():
    model = wrapped(nn.Dropout(0.5))
    with pytest.raises(Unsupported):
        TangentPullback(model).forward(state_of(model), *batch(1, 11, channels=2))


def test_one_value_a_channel_is_refused_with_the_remedy():
    model = network("resnet18", 32)
    with pytest.raises(Unsupported, match="resnet18-gn"):
        pullback_for(model, CrossEntropy()).forward(state_of(model), *batch(1, 32))

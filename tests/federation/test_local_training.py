"""The client's round against torch.optim, against its own differentiable form, and as a pure function."""

import copy

import pytest
import torch
from torch import nn

from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.federation.local_training import guessed_schedule, local_training, schedule, train_on
from fluoroscope.types import (
    Adam,
    AdamW,
    CrossEntropy,
    CustomLoss,
    LocalTraining,
    Normalisation,
    OneGradient,
    PrivateBatch,
    Sgd,
)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, 2, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(36, 3)
    )


def batch(n: int = 10) -> PrivateBatch:
    g = torch.Generator().manual_seed(1)
    images, labels = torch.rand(n, 1, 8, 8, generator=g), torch.randint(3, (n,), generator=g)
    return PrivateBatch(images, labels, tuple(map(str, range(n))))


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(2)


def state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def by_hand(model: nn.Module, data: PrivateBatch, training: LocalTraining, optimiser, mu: float = 0.0):
    """The plain loop that everybody writes, with torch's own optimiser."""
    model = copy.deepcopy(model).train()
    model[4].p = 0.0
    start = [p.detach().clone() for p in model.parameters()]
    steps = optimiser(model.parameters())
    for chosen in schedule(training, rng()):
        loss = nn.functional.cross_entropy(model(data.images[chosen]), data.labels[chosen])
        loss = loss + mu / 2 * sum(((p - s) ** 2).sum() for p, s in zip(model.parameters(), start, strict=True))
        steps.zero_grad()
        loss.backward()
        steps.step()
    return model.state_dict()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Sgd(0.1), lambda p: torch.optim.SGD(p, 0.1)),
        (Sgd(0.1, 0.9, 0.01), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01)),
        (Sgd(0.1, 0.9, 0.01, True), lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.01, nesterov=True)),
        (Adam(0.01), lambda p: torch.optim.Adam(p, 0.01)),
        (Adam(0.01, (0.8, 0.9), 1e-3, 0.1), lambda p: torch.optim.Adam(p, 0.01, (0.8, 0.9), 1e-3, 0.1)),
        (AdamW(0.01, weight_decay=0.2), lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.2)),
    ],
    ids=["sgd", "sgd-momentum-decay", "sgd-nesterov", "adam", "adam-decay", "adamw"],
)
@pytest.mark.parametrize("mu", [0.0, 0.5])
def test_equals_the_plain_loop(ours, theirs, mu):
    model, data = network(), batch()
    model[4].p = 0.0
    training = LocalTraining(ours, images=10, batch_size=4, epochs=3, proximal_mu=mu)
    expected = by_hand(model, data, training, theirs, mu)
    got = local_training(model, state(model), data, training, rng()).state
    for name, value in expected.items():
        torch.testing.assert_close(got[name], value, rtol=1e-5, atol=1e-6)


def test_fedprox_pulls_towards_the_global_model():
    model, data = network(), batch()
    free, held = (
        local_training(model, state(model), data, LocalTraining(Sgd(0.1), 10, 5, 5, proximal_mu=mu), rng()).state
        for mu in (0.0, 5.0)
    )
    start = {name: value.detach() for name, value in model.named_parameters()}
    drift = [sum(float((s[name] - value).square().sum()) for name, value in start.items()) for s in (free, held)]
    assert drift[1] < 0.5 * drift[0]


def test_is_pure_and_repeatable():
    model, data = network(), batch()
    before = state(model)
    given = state(model)
    training = LocalTraining(Sgd(0.1), 10, 3)
    torch.manual_seed(7)
    first = local_training(model, given, data, training, rng())
    drawn = torch.rand(1)
    torch.manual_seed(99)
    second = local_training(model, given, data, training, rng())
    for name, value in before.items():
        assert torch.equal(value, given[name])
        assert torch.equal(value, model.state_dict()[name])
        assert torch.equal(first.state[name], second.state[name])  # dropout included
    torch.manual_seed(7)
    assert torch.equal(drawn, torch.rand(1)), "the global generator must be left where it was"


def test_the_graph_gives_the_same_state_and_a_true_derivative():
    model = network().double()
    model[4].p = 0.0
    data = batch(4)
    training = LocalTraining(Sgd(0.1, momentum=0.5), 4, 2)
    images = data.images.double().requires_grad_()
    pairs = [(images[:2], data.labels[:2]), (images[2:], data.labels[2:])]
    plain = train_on(model, state(model), pairs, training, rng())
    graph = train_on(model, state(model), pairs, training, rng(), create_graph=True)
    for name, value in plain.state.items():
        torch.testing.assert_close(graph.state[name], value)

    def change(x):
        new = train_on(model, state(model), [(x[:2], data.labels[:2]), (x[2:], data.labels[2:])], training, rng(), True)
        return sum((new.state[n] - v).square().sum() for n, v in model.named_parameters())

    (gradient,) = torch.autograd.grad(change(images), images)
    direction = torch.randn(images.shape, generator=rng(), dtype=torch.float64)
    h = 1e-6
    numeric = (change(images + h * direction) - change(images - h * direction)) / (2 * h)
    torch.testing.assert_close((gradient * direction).sum(), numeric, rtol=1e-5, atol=1e-9)


def test_a_dead_unit_gives_attackers_no_nan_through_adam():
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.ReLU(), nn.Linear(4, 3))
    with torch.no_grad():
        model[1].bias[0] = -100.0  # never fires: its gradients and second moments stay exactly 0
    images = batch(2).images.requires_grad_()
    pairs = [(images, torch.tensor([0, 1]))] * 2
    trained = train_on(model, state(model), pairs, LocalTraining(Adam(0.01), 2, 2, 2), rng(), create_graph=True)
    (gradient,) = torch.autograd.grad(sum(v.sum() for v in trained.state.values()), images)
    assert gradient.isfinite().all()
    assert gradient.abs().sum() > 0


def test_batchnorm_in_eval_mode_keeps_its_statistics():
    model, data = network(), batch()
    trained = local_training(model, state(model), data, LocalTraining(Sgd(0.1), 10, 5, batchnorm="eval"), rng()).state
    assert torch.equal(trained["1.running_mean"], model.state_dict()["1.running_mean"])


def test_running_statistics_follow_the_momentum_rule():
    """r_1 = (1-m) r_0 + m s_1, with the unbiased variance (spec: BatchNorm, done exactly)."""
    model, data = network(), batch(4)
    training = LocalTraining(Sgd(0.1), 4, 4, batchnorm_momentum=0.3)
    trained = local_training(model, state(model), data, training, rng()).state
    features = model[0](data.images)
    torch.testing.assert_close(trained["1.running_mean"], 0.3 * features.mean((0, 2, 3)))
    torch.testing.assert_close(trained["1.running_var"], 0.7 + 0.3 * features.var((0, 2, 3), unbiased=True))


def test_one_value_a_channel_is_refused_with_the_remedy():
    model = nn.Sequential(nn.Conv2d(1, 4, 8), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 3))
    with pytest.raises(Unsupported, match=r"batch of 1 image of 8 px.*resnet18-gn"):
        local_training(model, state(model), batch(1), LocalTraining(Sgd(0.1), 1, 1), rng())


def test_every_epoch_sees_every_image_once():
    training = LocalTraining(Sgd(0.1), 10, 4, epochs=2)
    steps = schedule(training, rng())
    assert [len(chosen) for chosen in steps] == [4, 4, 2, 4, 4, 2]
    assert training.steps == len(steps)
    for epoch in (steps[:3], steps[3:]):
        assert torch.cat(epoch).sort().values.tolist() == list(range(10))
    assert not torch.equal(torch.cat(steps[:3]), torch.cat(steps[3:]))


@pytest.mark.parametrize("optimiser", [Sgd(0.1, 0.9, 0.01, True), Adam(0.01, weight_decay=0.1), AdamW(0.01)], ids=str)
def test_the_differentiable_form_takes_the_same_steps(optimiser):
    model, data = network(), batch()
    model[4].p = 0.0
    training = LocalTraining(optimiser, 10, 4, 2, clip_norm=0.5)
    plain = local_training(model, state(model), data, training, rng()).state
    batches = [(data.images[chosen], data.labels[chosen]) for chosen in schedule(training, rng())]
    graph = train_on(model, state(model), batches, training, rng(), create_graph=True).state
    for name, value in plain.items():
        torch.testing.assert_close(graph[name].detach(), value, rtol=1e-4, atol=1e-6)


def test_one_gradient_is_sent_as_it_is():
    model, data = network(), batch()
    model[4].p = 0.0
    after = local_training(model, state(model), data, LocalTraining(OneGradient(), 10, 10), rng()).state
    trained = model.train()
    loss = nn.functional.cross_entropy(trained(data.images), data.labels)
    for (name, value), gradient in zip(
        model.named_parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
    ):
        torch.testing.assert_close(value.detach() - after[name], gradient, rtol=1e-4, atol=1e-6)
    with pytest.raises(Misconfigured, match="one gradient is one step"):
        LocalTraining(OneGradient(), 10, 4)


def test_clipping_equals_torch_s():
    model, data = network(), batch()
    model[4].p = 0.0
    training = LocalTraining(Sgd(0.1, 0.9), 10, 4, 2, clip_norm=0.3)
    own = copy.deepcopy(model).train()
    steps = torch.optim.SGD(own.parameters(), 0.1, 0.9)
    for chosen in schedule(training, rng()):
        steps.zero_grad()
        nn.functional.cross_entropy(own(data.images[chosen]), data.labels[chosen]).backward()
        torch.nn.utils.clip_grad_norm_(own.parameters(), 0.3)
        steps.step()
    got = local_training(model, state(model), data, training, rng()).state
    for name, value in own.state_dict().items():
        torch.testing.assert_close(got[name], value, rtol=1e-4, atol=1e-6)


def test_a_number_of_steps_in_the_place_of_epochs():
    training = LocalTraining(Sgd(0.1), 10, 4, max_steps=5)
    assert (training.steps, training.passes) == (5, 2)
    sizes = [len(chosen) for chosen in schedule(training, rng())]
    assert sizes == [4, 4, 2, 4, 4]
    two = [chosen.tolist() for chosen in guessed_schedule(training)]
    assert two == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [0, 1, 2, 3], [4, 5, 6, 7]]


def test_frozen_layers_stay_and_the_rest_trains_as_if_they_had_no_gradient():
    model, data = network(), batch()
    model[4].p = 0.0
    training = LocalTraining(Sgd(0.1, weight_decay=0.1), 10, 4, frozen=("0.*", "1.weight"))
    got = local_training(model, state(model), data, training, rng()).state
    own = copy.deepcopy(model).train()
    own[0].requires_grad_(False)
    own[1].weight.requires_grad_(False)
    steps = torch.optim.SGD([p for p in own.parameters() if p.requires_grad], 0.1, weight_decay=0.1)
    for chosen in schedule(training, rng()):
        steps.zero_grad()
        nn.functional.cross_entropy(own(data.images[chosen]), data.labels[chosen]).backward()
        steps.step()
    assert torch.equal(got["0.weight"], model.state_dict()["0.weight"])
    for name, value in own.state_dict().items():
        torch.testing.assert_close(got[name], value, rtol=1e-5, atol=1e-6)
    with pytest.raises(Misconfigured, match=r"no parameter is named 'layer9\.\*'"):
        local_training(model, state(model), data, LocalTraining(Sgd(0.1), 10, 4, frozen=("layer9.*",)), rng())
    with pytest.raises(Misconfigured, match="leaves nothing to train"):
        local_training(model, state(model), data, LocalTraining(Sgd(0.1), 10, 4, frozen=("*",)), rng())


def test_normalised_pixels_are_what_the_network_sees():
    model, data = network(), batch()
    model[4].p = 0.0
    norm = Normalisation((0.4,), (0.2,))
    inside = local_training(model, state(model), data, LocalTraining(Sgd(0.1), 10, 4, normalisation=norm), rng()).state
    outside = PrivateBatch((data.images - 0.4) / 0.2, data.labels, data.patients)
    plain = local_training(model, state(model), outside, LocalTraining(Sgd(0.1), 10, 4), rng()).state
    for name, value in plain.items():
        torch.testing.assert_close(inside[name], value, rtol=1e-5, atol=1e-6)
    three = Normalisation((0.4,) * 3, (0.2,) * 3)
    with pytest.raises(Misconfigured, match="3 means for images of 1 channels"):
        local_training(model, state(model), data, LocalTraining(Sgd(0.1), 10, 4, normalisation=three), rng())


def test_any_loss_is_trained_with():
    model, data = network(), batch()
    model[4].p = 0.0
    ours = [CrossEntropy((1.0, 2.0, 0.5), 0.1), CustomLoss(lambda o, t: nn.functional.multi_margin_loss(o, t))]
    theirs = [
        lambda o, t: nn.functional.cross_entropy(o, t, torch.tensor([1.0, 2.0, 0.5]), label_smoothing=0.1),
        nn.functional.multi_margin_loss,
    ]
    for loss, plain in zip(ours, theirs, strict=True):
        training = LocalTraining(Sgd(0.1), 10, 4, loss=loss)
        got = local_training(model, state(model), data, training, rng()).state
        own = copy.deepcopy(model).train()
        steps = torch.optim.SGD(own.parameters(), 0.1)
        for chosen in schedule(training, rng()):
            steps.zero_grad()
            plain(own(data.images[chosen]), data.labels[chosen]).backward()
            steps.step()
        for name, value in own.state_dict().items():
            torch.testing.assert_close(got[name], value, rtol=1e-5, atol=1e-6)

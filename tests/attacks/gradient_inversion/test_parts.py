"""Starts, regularisers, labels and BatchNorm statistics, each by itself."""

import pytest
import torch
from torch import nn

from fluoroscope.attacks.common.batch_statistics import averaged, mismatch, recovered, values_per_channel
from fluoroscope.attacks.common.initialisation import INITIALISATIONS, Given, PriorImage
from fluoroscope.attacks.gradient_inversion.labels import last_dense_layer, restored_counts, sign_label
from fluoroscope.attacks.gradient_inversion.pullback.contract import Statistics
from fluoroscope.attacks.gradient_inversion.regularisers import GroupConsistency, SquaredNorm, TotalVariation
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.federation.local_training import train_on
from fluoroscope.threat_models import THREATS
from fluoroscope.types import LocalTraining, Observation, Sgd


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def seen(prior: torch.Tensor | None = None) -> Observation:
    return Observation(THREATS.get("curious-server"), 1, ("client-1",), public_mean=prior)


@pytest.mark.parametrize("name", ["normal", "uniform", "transformed-gaussian", "prior"])
def test_starts_have_the_shape_and_follow_the_generator(name):
    start, observation = INITIALISATIONS.get(name)(), seen(torch.full((1, 16, 16), 0.5))
    first = start(observation, (3, 1, 16, 16), rng())
    assert first.shape == (3, 1, 16, 16)
    assert torch.equal(first, start(observation, (3, 1, 16, 16), rng()))
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize("name", ["uniform", "transformed-gaussian"])
def test_scaled_starts_fill_the_unit_interval_image_by_image(name):
    start = INITIALISATIONS.get(name)()(seen(), (4, 3, 8, 8), rng()).flatten(1)
    assert start.amin(1).tolist() == [0.0] * 4
    assert start.amax(1).tolist() == [1.0] * 4


def test_one_image_starts_at_the_prior_itself():
    prior = torch.rand(1, 16, 16, generator=rng())
    assert torch.equal(PriorImage()(seen(prior), (1, 1, 16, 16), rng())[0], prior)
    with pytest.raises(Unsupported, match="capability 'prior'"):
        PriorImage()(seen(), (1, 1, 16, 16), rng())


def test_a_given_start_must_fit():
    assert torch.equal(Given(torch.ones(1, 1, 4, 4))(seen(), (1, 1, 4, 4), rng()), torch.ones(1, 1, 4, 4))
    with pytest.raises(Misconfigured, match=r"shape \(1, 1, 4, 4\), the attack needs \(2, 1, 4, 4\)"):
        Given(torch.ones(1, 1, 4, 4))(seen(), (2, 1, 4, 4), rng())


def test_priors_by_hand():
    images = torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]], [[[0.0, 0.0], [2.0, 2.0]]]])
    assert TotalVariation(3.0)(images).item() == pytest.approx(3 * 2 * ((2 + 2) / 4 + (1 + 1) / 4))
    assert SquaredNorm(2.0)(images).item() == pytest.approx(2 * 2 * (2 + 8) / 8)
    assert GroupConsistency(1.0)(images, images).item() == 0
    assert TotalVariation(1.0)(torch.full((2, 1, 5, 5), 0.3)).item() == 0


@pytest.mark.parametrize("label", [0, 1, 2])
def test_the_sign_of_the_last_layer_gives_the_label(label):
    """For any sign of the features, unlike the sign of the row's sum."""
    for seed in range(20):
        dense, features = nn.Linear(6, 3), torch.randn(1, 6, generator=rng(seed))
        loss = nn.functional.cross_entropy(dense(features), torch.tensor([label]))
        weight, bias = torch.autograd.grad(loss, [dense.weight, dense.bias])
        assert sign_label(weight) == label
        assert sign_label(weight, bias) == label


@pytest.mark.parametrize("label", [0, 1])
def test_two_classes_need_the_bias_or_positive_features(label):
    for seed in range(20):
        dense, features = nn.Linear(6, 2), torch.randn(1, 6, generator=rng(seed))
        for given, with_bias in ((features, True), (features.abs(), False)):
            loss = nn.functional.cross_entropy(dense(given), torch.tensor([label]))
            weight, bias = torch.autograd.grad(loss, [dense.weight, dense.bias])
            assert sign_label(weight, bias if with_bias else None) == label


def test_counts_of_a_batch_from_its_bias():
    """Exact when the mean prediction is known; whole numbers that add up in any case."""
    logits, labels = torch.randn(8, 4, generator=rng()), torch.tensor([0, 0, 0, 1, 3, 3, 0, 1])
    predicted = logits.softmax(1)
    bias = (predicted - torch.eye(4)[labels]).mean(0)
    assert restored_counts(bias, 8, predicted.mean(0)).tolist() == [4, 2, 0, 2]
    assert restored_counts(bias, 8, torch.full((4,), 0.25)).sum() == 8


def test_the_last_dense_layer_is_found_by_its_rows():
    update = {"conv.weight": torch.zeros(4, 1, 3, 3), "fc.weight": torch.zeros(2, 5), "fc.bias": torch.zeros(2)}
    weight, bias = last_dense_layer(update, 2)
    assert weight.shape == (2, 5)
    assert bias is not None
    with pytest.raises(Unsupported, match="no dense layer of 3 rows"):
        last_dense_layer(update, 3)


def batchnorm_network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2)).double()


def test_one_step_gives_the_statistics_back_exactly():
    model = batchnorm_network()
    images = torch.rand(2, 1, 8, 8, generator=rng(), dtype=torch.float64)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    training = LocalTraining(Sgd(0.1), 2, 2, batchnorm_momentum=0.2)
    after = train_on(model, before, [(images, torch.tensor([0, 1]))], training, rng()).state
    counts = values_per_channel(model, images)
    assert counts == {"1": 2 * 36}
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())
    features = model[0](images)
    found = recovered(before, after, 0.2, counts)
    true = Statistics(features.mean((0, 2, 3)), features.var((0, 2, 3), correction=0))
    torch.testing.assert_close(found["1"], true)
    torch.testing.assert_close(mismatch(found, {"1": true}), torch.zeros((), dtype=torch.float64), atol=1e-9, rtol=0)
    far = Statistics(true.mean + 3.0, true.var)
    assert mismatch(found, {"1": far}).item() == pytest.approx(6.0)  # four channels: the norm of (3, 3, 3, 3)


def test_several_steps_average_as_the_buffers_do():
    """Batches of 2, 2 and 1: what is read off the buffers is the weighted mean of the steps."""
    model = batchnorm_network()
    images = torch.rand(5, 1, 8, 8, generator=rng(), dtype=torch.float64)
    batches = [(images[:2], torch.tensor([0, 1])), (images[2:4], torch.tensor([0, 1])), (images[4:], torch.tensor([0]))]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    training, steps, state = LocalTraining(Sgd(0.1), 5, 2), [], before
    for batch in batches:
        features = nn.functional.conv2d(batch[0], state["0.weight"], state["0.bias"])
        steps.append({"1": Statistics(features.mean((0, 2, 3)), features.var((0, 2, 3), correction=0))})
        state = train_on(model, state, [batch], training, rng()).state
    found = averaged(steps, [2, 2, 1], 0.1, counts={"1": 72})
    torch.testing.assert_close(found, recovered(before, state, 1 - 0.9**3, {"1": 72}))

"""The unrolled client: equal to one step where there is one, to a naive loop and finite differences where not."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from fluoroscope.attacks.common.batch_statistics import averaged, recovered, values_per_channel
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.common.initialisation import Uniform
from fluoroscope.attacks.gradient_inversion.attack import Inversion
from fluoroscope.attacks.gradient_inversion.distances import Cosine, LayerL2, SquaredL2
from fluoroscope.attacks.gradient_inversion.objective import Objective, OneStep
from fluoroscope.attacks.gradient_inversion.regularisers import SquaredNorm, TotalVariation
from fluoroscope.attacks.gradient_inversion.simulated_clients.unrolled import Unrolled
from fluoroscope.errors import Unsupported
from fluoroscope.federation.local_training import local_training
from fluoroscope.models import Architecture
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Adam, LocalTraining, Observation, PrivateBatch, Sgd, UpdateRecord

BOTH = Objective(LayerL2(), 2.0, 0.5, (TotalVariation(0.1), SquaredNorm(0.2)))
ROUNDS = {
    "three steps, the last smaller": LocalTraining(Sgd(0.1), 5, 2),
    "two epochs": LocalTraining(Sgd(0.1), 2, 1, epochs=2),
    "momentum and decay": LocalTraining(Sgd(0.1, momentum=0.9, weight_decay=0.01), 3, 1),
    "proximal": LocalTraining(Sgd(0.1), 2, 1, proximal_mu=0.5),
    "adam": LocalTraining(Adam(1e-3, eps=1e-3), 2, 1),
}


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch(n: int, channels: int = 1) -> PrivateBatch:
    return PrivateBatch(torch.rand(n, channels, 28, 28, generator=rng(5)), torch.arange(n) % 2, ("p",) * n)


def seen(training: LocalTraining, model: str = "small-cnn", channels: int = 1, size: int = 28) -> Observation:
    architecture = Architecture(model, channels, 2, size)
    network = architecture.build()
    before = {name: value.detach().clone() for name, value in network.state_dict().items()}
    after = local_training(network, before, batch(training.images, channels), training, rng()).state
    names = {name for name, _ in network.named_buffers()}
    split = [{k: v for k, v in s.items() if (k in names) == b} for b in (False, True) for s in (before, after)]
    return observe(UpdateRecord(1, ("c",), architecture, training, *split), THREATS.get("curious-server"))


def in_double(client):
    """The same client in float64, so that differences can be taken."""
    client.setup.model.double()
    client.state = {k: v.double() if v.is_floating_point() else v for k, v in client.state.items()}
    client.seen = {k: v.double() for k, v in client.seen.items()}
    client.statistics = {k: type(v)(*(x.double() for x in v)) for k, v in client.statistics.items()}
    return client


def guess(n: int, channels: int = 1) -> tuple[Tensor, Tensor]:
    images = torch.rand(n, channels, 28, 28, generator=rng(1), dtype=torch.float64)
    return images, torch.randn(n, 2, generator=rng(2), dtype=torch.float64)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "objective", [BOTH, Objective(batchnorm_weight=0.5), Objective(SquaredL2())], ids=["both", "statistics", "update"]
)
def test_one_step_unrolled_is_one_step(objective, channels):
    observation = seen(LocalTraining(Sgd(0.1), 2, 2), channels=channels)
    images, logits = guess(2, channels)
    ours = in_double(Unrolled(observation, objective)).evaluate(images, logits)
    theirs = in_double(OneStep(observation, objective)).evaluate(images, logits)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", list(ROUNDS))
def test_the_gradient_is_the_derivative(name):
    client = in_double(Unrolled(seen(ROUNDS[name]), BOTH))
    images, logits = guess(ROUNDS[name].images)
    _, to_images, to_logits = client.evaluate(images, logits)
    to_x, to_y = (torch.randn(g.shape, generator=rng(3), dtype=torch.float64) for g in (to_images, to_logits))
    step = 1e-7
    for dx, dy in ((to_x, 0 * to_y), (0 * to_x, to_y)):
        ahead, behind = (client.evaluate(images + h * dx, logits + h * dy)[0] for h in (step, -step))
        expected = (to_images * dx).sum() + (to_logits * dy).sum()
        torch.testing.assert_close(expected, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-7)


def test_the_value_is_that_of_a_naive_loop():
    """Two steps of plain SGD by hand, on batches of 2 and 1, with torch's own running statistics."""
    training = LocalTraining(Sgd(0.1), 3, 2)
    client = in_double(Unrolled(seen(training), replace(BOTH, regularisers=())))
    images, logits = guess(3)
    network = Architecture("small-cnn", 1, 2, 28).build().double()
    network.load_state_dict(client.state)
    network.train()
    optimiser = torch.optim.SGD(network.parameters(), 0.1)
    for chosen in (slice(0, 2), slice(2, 3)):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(images[chosen]), logits[chosen].softmax(1)).backward()
        optimiser.step()
    after = network.state_dict()
    gaps = [(client.state[k] - after[k]) / (0.1 * 2) - value for k, value in client.seen.items()]
    counts = values_per_channel(client.setup.model, torch.zeros(2, 1, 28, 28, dtype=torch.float64))
    ours = recovered(client.state, after, 1 - 0.9**2, counts)
    gaps_of_statistics = [a - b for k, pair in client.statistics.items() for a, b in zip(ours[k], pair, strict=True)]
    expected = 2.0 * sum(gap.norm() for gap in gaps) + 3 * 0.5 * sum(gap.norm() for gap in gaps_of_statistics)
    value, _, _ = client.evaluate(images, logits)
    assert value.item() == pytest.approx(expected.item(), rel=1e-9)


@pytest.mark.parametrize("name", list(ROUNDS))
def test_the_steps_statistics_are_those_in_the_buffers(name):
    training = ROUNDS[name]
    client = in_double(Unrolled(seen(training), BOTH))
    images, logits = guess(training.images)
    with torch.enable_grad():
        state, steps = client._trained(images, logits.softmax(1))
    assert len(steps) == training.steps
    first = min(training.batch_size, training.images)
    counts = values_per_channel(client.setup.model, torch.zeros(first, 1, 28, 28, dtype=torch.float64))
    sizes = [len(part) for part in images.split(training.batch_size)] * training.epochs
    found = averaged(steps, sizes, training.batchnorm_momentum, counts)
    expected = recovered(client.state, state, 1 - (1 - training.batchnorm_momentum) ** training.steps, counts)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["momentum and decay", "proximal", "adam"])
def test_the_truth_in_its_order_is_a_minimum_at_zero(name):
    training, objective = ROUNDS[name], Objective(SquaredL2(), batchnorm_weight=0.01)
    client, truth = Unrolled(seen(training), objective), batch(training.images)
    order = torch.randperm(training.images, generator=rng())  # as local_training draws it
    certain = 50.0 * nn.functional.one_hot(truth.labels, 2).float()[order]
    at_truth, _, _ = client.evaluate(truth.images[order], certain)
    elsewhere, _, _ = client.evaluate(1 - truth.images[order], certain)
    assert at_truth < 1e-2 * elsewhere


@pytest.mark.parametrize("model", ["lenet5", "p3-cnn", "resnet18-gn"])
def test_networks_without_buffers_and_with_dropout(model):
    size = 32
    training = LocalTraining(Sgd(0.01), 2, 1)
    images = torch.rand(2, 1, size, size, generator=rng(5))
    architecture = Architecture(model, 1, 2, size)
    network = architecture.build()
    before = {name: value.detach().clone() for name, value in network.state_dict().items()}
    private = PrivateBatch(images, torch.tensor([0, 1]), ("a", "b"))
    after = local_training(network, before, private, training, rng()).state
    names = {name for name, _ in network.named_buffers()}
    split = [{k: v for k, v in s.items() if k not in names} for s in (before, after)]
    record = UpdateRecord(1, ("c",), architecture, training, *split)  # buffers_after is None, as with FedBN
    observation = observe(record, THREATS.get("curious-server"))
    client = Unrolled(observation, Objective(Cosine()))
    first, second = (client.evaluate(images.flip(0), torch.zeros(2, 2)) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert all(part.isfinite().all() for part in first)
    assert first[1].norm() > 0
    again = Unrolled(observation, BOTH).evaluate(images.flip(0), torch.zeros(2, 2))
    assert again[1].norm() > 0, "the gradient term is left"
    with pytest.raises(Unsupported, match="'buffers': it was withheld"):
        Unrolled(observation, replace(BOTH, distance=None))


def test_an_attack_on_several_steps_runs_and_leaves_the_state_alone():
    observation = seen(LocalTraining(Sgd(0.1), 2, 1))
    kept = {k: v.clone() for k, v in observation.buffers_before.items()}
    attack = Inversion(BOTH, Uniform(), budget=Budget(5))
    (found,) = attack.run([observation], rng())
    assert found.objective < found.trace[0]
    assert all(torch.equal(v, observation.buffers_before[k]) for k, v in kept.items())

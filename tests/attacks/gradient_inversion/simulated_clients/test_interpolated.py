"""The interpolated client: one step's where there is one, a naive loop's at the weights in between where not."""

import pytest
import torch
from torch.func import functional_call

from fluoroscope.attacks.common.batch_statistics import averaged, mismatch, values_per_channel
from fluoroscope.attacks.common.measuring import measured
from fluoroscope.attacks.gradient_inversion.distances import LayerL2
from fluoroscope.attacks.gradient_inversion.objective import Objective, OneStep
from fluoroscope.attacks.gradient_inversion.regularisers import TotalVariation
from fluoroscope.attacks.gradient_inversion.simulated_clients.interpolated import Interpolated
from fluoroscope.types import LocalTraining, Sgd

from .test_unrolled import BOTH, batch, guess, in_double, seen

STATISTICS = Objective(batchnorm_weight=0.5, regularisers=(TotalVariation(0.1),))


def doubled(client: Interpolated) -> Interpolated:
    client.state = {}
    in_double(client)
    client.states = [{k: v.double() if v.is_floating_point() else v for k, v in s.items()} for s in client.states]
    return client


@pytest.mark.parametrize("objective", [BOTH, STATISTICS], ids=["both", "statistics"])
def test_one_step_is_one_step(objective):
    observation = seen(LocalTraining(Sgd(0.1), 2, 2))
    images, logits = guess(2)
    ours = doubled(Interpolated(observation, objective)).evaluate(images, logits)
    theirs = in_double(OneStep(observation, objective)).evaluate(images, logits)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("training", [LocalTraining(Sgd(0.1), 3, 2), LocalTraining(Sgd(0.1), 2, 1, epochs=2)])
@pytest.mark.parametrize("objective", [BOTH, STATISTICS], ids=["both", "statistics"])
def test_several_steps_are_those_of_a_naive_loop(objective, training):
    client = doubled(Interpolated(seen(training), objective))
    images, logits = (part.requires_grad_() for part in guess(training.images))
    parts = list(torch.arange(training.images).split(training.batch_size)) * training.epochs
    gradients, steps = [], []
    for state, part in zip(client.states, parts, strict=True):
        weights = {name: state[name].requires_grad_() for name, _ in client.setup.model.named_parameters()}
        rest = {name: value.clone() for name, value in state.items() if name not in weights}
        with measured(client.setup.model) as found:
            predicted = functional_call(client.setup.model, weights | rest, (images[part],))
        loss = torch.nn.functional.cross_entropy(predicted, logits[part].softmax(1))
        gradients.append(torch.autograd.grad(loss, list(weights.values()), create_graph=True))
        steps.append(found)
    counts = values_per_channel(client.setup.model, torch.zeros(len(parts[0]), 1, 28, 28, dtype=torch.float64))
    ours = averaged(steps, [len(part) for part in parts], 0.1, counts)
    weight = 0.5 * training.images
    expected = weight * mismatch(ours, client.statistics) + sum(
        regulariser(images) for regulariser in objective.regularisers
    )
    if objective.distance is not None:
        mean = [torch.stack(column).mean(0) for column in zip(*gradients, strict=True)]
        expected = expected + 2.0 * LayerL2()(mean, list(client.seen.values()))
    to_images, to_logits = torch.autograd.grad(expected, (images, logits), materialize_grads=True)
    found = client.evaluate(images, logits)
    torch.testing.assert_close(found, (expected.detach(), to_images, to_logits), rtol=1e-8, atol=1e-8)


def test_the_steps_stand_between_the_two_states():
    observation = seen(LocalTraining(Sgd(0.1), 2, 1))
    first, second = Interpolated(observation, STATISTICS).states
    for name, value in observation.state_before.items():
        assert torch.equal(first[name], value)
        torch.testing.assert_close(second[name], value + observation.update[name] / 2)


def test_near_the_truth_a_slow_round_is_matched():
    training = LocalTraining(Sgd(1e-3), 2, 1)
    client, truth = Interpolated(seen(training), BOTH), batch(2)
    order = torch.randperm(2, generator=torch.Generator().manual_seed(0))  # as local_training draws it
    certain = 50.0 * torch.nn.functional.one_hot(truth.labels, 2).float()[order]
    at_truth, _, _ = client.evaluate(truth.images[order], certain)
    elsewhere, _, _ = client.evaluate(1 - truth.images[order], certain)
    assert at_truth < 0.2 * elsewhere

"""Several steps as one: exact where they were all alike."""

from dataclasses import replace

import torch

from fluoroscope.attacks.common.batch_statistics import recovered
from fluoroscope.attacks.gradient_inversion.single_step import as_single_step
from fluoroscope.types import LocalTraining, Sgd
from tests.attacks.gradient_inversion.observations import seen, victim


def test_the_mean_step_and_the_mean_statistics_are_kept():
    one = seen(victim(2), "small-cnn")
    training = LocalTraining(Sgd(0.1), images=6, batch_size=2)
    momentum = training.batchnorm_momentum
    counts = {n.removesuffix(".running_mean"): 50 for n in one.buffers_after if n.endswith("running_mean")}
    statistics = recovered(one.buffers_before, one.buffers_after, momentum, counts)
    # Three steps with the same statistics, and three times the update.
    after = {
        name: value + (1 - (1 - momentum) ** 3) / momentum * (one.buffers_after[name] - value)
        if value.is_floating_point()
        else value
        for name, value in one.buffers_before.items()
    }
    three = replace(one, training=training, update={n: 3 * v for n, v in one.update.items()}, buffers_after=after)
    again = as_single_step(three, 2)
    assert (again.training.steps, again.training.images) == (1, 2)
    for name, value in one.update.items():
        torch.testing.assert_close(again.update[name], value)
    for layer, found in recovered(again.buffers_before, again.buffers_after, momentum, counts).items():
        torch.testing.assert_close(found.mean, statistics[layer].mean, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(found.var, statistics[layer].var, atol=1e-5, rtol=1e-4)

"""Several steps as one: exact where they were all alike."""

from dataclasses import replace

import torch

from fluoroscope.attacks.common.batch_statistics import recovered
from fluoroscope.attacks.gradient_inversion.single_step import as_single_step, as_single_step_if_long
from fluoroscope.federation.client_round import client_round
from fluoroscope.models import Architecture
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import LocalTraining, PrivateBatch, Sgd
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


def test_a_client_with_fewer_images_than_a_batch_is_told_with_its_own_number():
    """One image, three epochs, a batch size of 16: one image is guessed, not sixteen."""
    image = PrivateBatch(torch.rand(1, 1, 28, 28), torch.tensor([0]), ("p",))
    network, training = Architecture("lenet5", 1, 2, 28), LocalTraining(Sgd(0.1), images=1, batch_size=16, epochs=3)
    rng = torch.Generator().manual_seed(0)
    record = client_round(network, network.build().state_dict(), image, training, rng).record
    told = as_single_step_if_long(observe(record, THREATS.get("curious-server"))).training
    assert (told.images, told.batch_size, told.steps) == (1, 1, 1)

"""The public code's objective against a transcript of what that code does, step by step."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fluoroscope.attacks.gradient_inversion.simulated_clients.dispatch import client_for
from fluoroscope.attacks.gradient_inversion.simulated_clients.p1_public_code import (
    DiagonalVariation,
    MeanNorm,
    P1PublicCode,
    P1PublicCodeClient,
)
from fluoroscope.errors import Unsupported
from fluoroscope.threat_models import THREATS
from tests.attacks.gradient_inversion.observations import seen, victim


def transcript(observation, images, logits):
    """Image and label gradients as the public code gets them: by `backward()`, twice, into the same `.grad`."""
    network = observation.network.build()
    network.load_state_dict({**observation.state_before, **observation.buffers_before})
    updated = observation.network.build()
    after = {name: value + observation.update[name] for name, value in observation.state_before.items()}
    updated.load_state_dict(after | observation.buffers_after)
    images, logits = images.clone().requires_grad_(), logits.clone().requires_grad_()
    cross_entropy(network.train()(images), logits.softmax(1)).backward()  # the simulated client's own backward pass
    terms = []

    def hook(layer, inputs, name):
        old, new = observation.buffers_before, observation.buffers_after
        mean, var = ((new[f"{name}.{k}"] - 0.9 * old[f"{name}.{k}"]) / 0.1 for k in ("running_mean", "running_var"))
        x = inputs[0].transpose(0, 1).flatten(1)
        terms.extend([0.1 * torch.norm(x.mean(1) - mean), 0.1 * torch.norm(x.var(1, unbiased=False) - var)])

    for name, layer in updated.named_modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.register_forward_pre_hook(lambda layer, inputs, name=name: hook(layer, inputs, name))
    updated.train()(images)
    x = images
    differences = (
        x[:, :, :, :-1] - x[:, :, :, 1:],
        x[:, :, :-1, :] - x[:, :, 1:, :],
        x[:, :, 1:, :-1] - x[:, :, :-1, 1:],
        x[:, :, :-1, :-1] - x[:, :, 1:, 1:],
    )
    terms += [1e-4 * torch.norm(d) for d in differences]
    terms.append(1e-5 * torch.norm(x.view(len(x), -1), dim=1).mean())
    sum(terms).backward()
    return images.grad, logits.grad


def test_the_gradient_is_the_public_codes():
    observation = seen(victim(2), "small-cnn")
    client = client_for(observation, P1PublicCode())
    images, logits = victim(2, seed=1).images, torch.rand(2, 2, generator=torch.Generator().manual_seed(2))
    value, to_images, to_logits = client.evaluate(images, logits)
    expected_images, expected_logits = transcript(observation, images, logits)
    torch.testing.assert_close(to_images, expected_images, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(to_logits, expected_logits, rtol=1e-3, atol=1e-6)
    assert value.isfinite()


def test_its_statistics_are_not_the_batchs():
    """Without (n-1)/n even the truth does not match, which ours does."""
    truth = victim(1)
    client = P1PublicCodeClient(seen(truth, "small-cnn"), P1PublicCode(1.0, ()))
    certain = 50.0 * nn.functional.one_hot(truth.labels, 2).float()
    assert client.evaluate(truth.images, certain)[0] > 0.05


def test_priors_of_a_flat_image():
    flat = torch.full((2, 1, 4, 4), 0.5)
    assert DiagonalVariation(1.0)(flat).item() == 0
    assert MeanNorm(2.0)(flat).item() == pytest.approx(4.0)  # the norm of sixteen halves is two
    step = torch.cat([torch.zeros(1, 1, 4, 2), torch.ones(1, 1, 4, 2)], 3)
    assert DiagonalVariation(1.0)(step).item() == pytest.approx(2 + 2 * 3**0.5)


def test_without_batchnorm_it_is_refused():
    with pytest.raises(Unsupported, match="lenet5 with BatchNorm in mode 'train' gives none away"):
        client_for(seen(victim(1)), P1PublicCode())
    assert replace(P1PublicCode(), batchnorm_weight=1.0).needs <= THREATS.get("curious-server").capabilities

"""The simulated client: the objective's gradient is its derivative, and the truth is its minimum."""

from dataclasses import replace

import pytest
import torch

from fluoroscope.attacks.gradient_inversion.distances import Cosine, LayerL2, SquaredL2
from fluoroscope.attacks.gradient_inversion.objective import Objective, OneStep
from fluoroscope.attacks.gradient_inversion.regularisers import TotalVariation
from fluoroscope.attacks.gradient_inversion.simulated_clients.dispatch import client_for
from fluoroscope.attacks.gradient_inversion.simulated_clients.unrolled import Unrolled
from fluoroscope.errors import Unsupported
from fluoroscope.federation.local_training import local_training
from fluoroscope.models import Architecture
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Adam, LocalTraining, Observation, PrivateBatch, Sgd, UpdateRecord

OBJECTIVES = {
    "statistics": Objective(batchnorm_weight=0.5),
    "squared-l2": Objective(SquaredL2()),
    "both": Objective(LayerL2(), 2.0, 0.5, (TotalVariation(0.1),)),
    "cosine": Objective(Cosine(), batchnorm_weight=0.1),
}


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch(n: int) -> PrivateBatch:
    return PrivateBatch(torch.rand(n, 1, 28, 28, generator=rng(5)), torch.arange(n) % 2, ("p",) * n)


def seen(n: int, training: LocalTraining | None = None) -> Observation:
    architecture = Architecture("small-cnn", 1, 2, 28)
    model, training = architecture.build(), training or LocalTraining(Sgd(0.1), n, n)
    before = {name: value.detach().clone() for name, value in model.state_dict().items()}
    after = local_training(model, before, batch(n), training, rng()).state
    names = {name for name, _ in model.named_buffers()}
    split = [{k: v for k, v in s.items() if (k in names) == b} for b in (False, True) for s in (before, after)]
    return observe(UpdateRecord(1, ("c",), architecture, training, *split), THREATS.get("curious-server"))


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_the_gradient_is_the_derivative(name):
    client = OneStep(seen(2), OBJECTIVES[name])
    client.setup.model.double()
    client.state = {k: v.double() if v.is_floating_point() else v for k, v in client.state.items()}
    client.seen = {k: v.double() for k, v in client.seen.items()}
    client.statistics = {k: type(v)(*(x.double() for x in v)) for k, v in client.statistics.items()}
    images = torch.rand(2, 1, 28, 28, generator=rng(1), dtype=torch.float64)
    logits = torch.randn(2, 2, generator=rng(2), dtype=torch.float64)
    value, to_images, to_logits = client.evaluate(images, logits)
    step = 1e-6
    to_x, to_y = (torch.randn(g.shape, generator=rng(3), dtype=torch.float64) for g in (to_images, to_logits))
    for dx, dy in ((to_x, 0 * to_y), (0 * to_x, to_y)):
        ahead, behind = (client.evaluate(images + h * dx, logits + h * dy)[0] for h in (step, -step))
        expected = (to_images * dx).sum() + (to_logits * dy).sum()
        torch.testing.assert_close(expected, (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-7)
    assert value.isfinite()


@pytest.mark.parametrize("name", ["statistics", "squared-l2"])
@pytest.mark.parametrize("n", [1, 2])
def test_the_truth_is_a_minimum_at_zero(name, n):
    client, truth = OneStep(seen(n), OBJECTIVES[name]), batch(n)
    certain = 50.0 * torch.nn.functional.one_hot(truth.labels, 2).float()
    at_truth, _, _ = client.evaluate(truth.images, certain)
    elsewhere, _, _ = client.evaluate(1 - truth.images, certain)
    assert at_truth < 1e-3 * elsewhere


def test_the_client_that_is_simulated_is_the_one_that_was_seen():
    both, merged = OBJECTIVES["both"], replace(OBJECTIVES["both"], steps="merged")
    one, two = LocalTraining(Sgd(0.1, momentum=0.9), 2, 2), LocalTraining(Sgd(0.1), 2, 1)
    adam, decayed = LocalTraining(Adam(0.1), 2, 2), LocalTraining(Sgd(0.1, weight_decay=0.1), 2, 2)
    clipped = LocalTraining(Sgd(0.1), 2, 2, clip_norm=0.1)
    for training in (one, decayed):
        assert isinstance(client_for(seen(2, training), both), OneStep)
    for training in (two, adam, clipped):
        assert isinstance(client_for(seen(2, training), both), Unrolled)
        assert isinstance(client_for(seen(2, training), merged), OneStep)


def test_merged_steps_are_compared_with_their_mean():
    """Of two images in steps of one, the mean gradient: near that of the two at once where no layer mixes images."""
    training = LocalTraining(Sgd(1e-4), 2, 1, batchnorm="eval")
    client = OneStep(seen(2, training), Objective(Cosine(), steps="merged"))
    truth = batch(2)
    certain = 50.0 * torch.nn.functional.one_hot(truth.labels, 2).float()
    at_truth, _, _ = client.evaluate(truth.images, certain)
    elsewhere, _, _ = client.evaluate(1 - truth.images, certain)
    assert at_truth < 1e-3 * elsewhere


def test_a_client_without_statistics_is_refused_where_nothing_else_is_compared():
    silent = seen(2, LocalTraining(Sgd(0.1), 2, 2, batchnorm="eval"))
    for kind in (OneStep, Unrolled):
        with pytest.raises(Unsupported, match="BatchNorm in mode 'eval' gives none away"):
            kind(silent, OBJECTIVES["statistics"])
        assert kind(silent, OBJECTIVES["both"]).statistics == {}

"""The model of the buffers is what a client's buffers become, where its weights do not move."""

import pytest
import torch
from torch import nn

from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.learned.batch_statistics_model import BatchStatisticsModel
from fluoroscope.attacks.learned.evidence import Evidence
from fluoroscope.errors import Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.models import Architecture
from fluoroscope.rng import generator
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import LocalTraining, Network, Normalisation, PrivateBatch, Sgd

STILL = 1e-12
"""A learning rate at which weights stay where they are."""


def images(n: int) -> torch.Tensor:
    return torch.rand(n, 1, 28, 28, generator=torch.Generator().manual_seed(n))


def seen(network: Network, training: LocalTraining, batch: torch.Tensor):
    labels = torch.zeros(len(batch), dtype=torch.int64)
    private = PrivateBatch(batch, labels, ("",) * len(batch))
    done = client_round(network, network.build(1).state_dict(), private, training, generator(0))
    return observe(done.record, THREATS.get("curious-server"))


@pytest.mark.parametrize(("count", "size"), [(1, 1), (4, 4), (3, 2), (4, 1)])
def test_it_foresees_the_buffers(count, size):
    """Of one batch, and of several that look alike, whatever their order: here all images are the same."""
    network = Architecture("small-cnn", 1, 2, 28)
    training = LocalTraining(Sgd(STILL), count, size, normalisation=Normalisation((0.4,), (0.2,)))
    batch = images(count) if size >= count else images(1).expand(count, 1, 28, 28).clone()
    observation = seen(network, training, batch)
    evidence = Evidence.of(observation)
    model = BatchStatisticsModel(Setup.of(observation), evidence.buffers)
    other = images(count + 10)[:count]
    both = model.changes(torch.stack([batch, other]))
    torch.testing.assert_close(both[0], evidence.statistics(observation), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(both[0], both[1], atol=1e-3), "a neighbour is another client"


def test_autograd_follows():
    network, training = Architecture("small-cnn", 1, 2, 28), LocalTraining(Sgd(STILL), 2, 2)
    observation = seen(network, training, images(2))
    model = BatchStatisticsModel(Setup.of(observation), Evidence.of(observation).buffers)
    x = images(2)[None].requires_grad_()
    (slope,) = torch.autograd.grad(model.changes(x).sum(), x)
    direction, step = torch.randn(x.shape, generator=torch.Generator().manual_seed(0)), 2e-3
    with torch.no_grad():
        ends = [float(model.changes(x + side * step * direction).double().sum()) for side in (1, -1)]
    assert float((slope * direction).sum()) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=0.05)


def test_without_batchnorm_it_says_so():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.Flatten(), nn.Linear(2 * 26 * 26, 2))
    observation = seen(Network.of(module, (1, 28, 28)), LocalTraining(Sgd(0.1), 1, 1), images(1))
    with pytest.raises(Unsupported, match=r"shows none\. Use ridge"):
        BatchStatisticsModel(Setup.of(observation), Evidence.of(observation).buffers)

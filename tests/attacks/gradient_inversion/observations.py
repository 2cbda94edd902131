"""Observations of one step for tests, from a victim whose image is known to the test alone."""

import torch

from fluoroscope.federation.local_training import local_training
from fluoroscope.models import Architecture
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Knowledge, LocalTraining, Observation, PrivateBatch, Sgd, UpdateRecord


def victim(n: int = 1, size: int = 28, seed: int = 0, classes: int = 2) -> PrivateBatch:
    images = torch.rand(n, 1, size, size, generator=torch.Generator().manual_seed(seed))
    return PrivateBatch(images, torch.arange(seed, seed + n) % classes, ("p",) * n)


def seen(
    batch: PrivateBatch,
    model: str = "lenet5",
    knowledge: Knowledge | None = None,
    weights: int = 0,
    batchnorm: str = "train",
    prior: torch.Tensor | None = None,
    classes: int = 2,
) -> Observation:
    """One step of SGD on the whole batch, from the weights of this seed."""
    architecture = Architecture(model, batch.images.shape[1], classes, batch.images.shape[-1])
    network, training = (
        architecture.build(weights),
        LocalTraining(Sgd(0.1), len(batch), len(batch), batchnorm=batchnorm),
    )
    before = {name: value.detach().clone() for name, value in network.state_dict().items()}
    after = local_training(network, before, batch, training, torch.Generator().manual_seed(0)).state
    names = {name for name, _ in network.named_buffers()}
    split = [{k: v for k, v in s.items() if (k in names) == b} for b in (False, True) for s in (before, after)]
    record = UpdateRecord(1, ("client-1",), architecture, training, *split)
    return observe(record, knowledge or THREATS.get("curious-server"), prior)

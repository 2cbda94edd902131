"""LabelledImages to defend."""

from functools import lru_cache

import torch

from fluoroscope.data import Request, load
from fluoroscope.federation.local_training import local_training
from fluoroscope.models import Architecture
from fluoroscope.types import LocalTraining, PrivateBatch, Sgd, UpdateRecord


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int, size: int = 32) -> PrivateBatch:
    return load("phantom/chest", Request(size=size, images=count, seed=3)).batch


@lru_cache
def record(model: str = "small-cnn", count: int = 4) -> UpdateRecord:
    architecture, training = Architecture(model, 1, 2, 32), LocalTraining(Sgd(0.05), count, count)
    network = architecture.build()
    before = {name: value.detach().clone() for name, value in network.state_dict().items()}
    after = local_training(network, before, images(count), training, rng()).state
    buffers = {name for name, _ in network.named_buffers()}

    def part(state, of_buffers):
        return {name: value for name, value in state.items() if (name in buffers) == of_buffers}

    parts = (part(before, False), part(after, False), part(before, True), part(after, True))
    return UpdateRecord(1, ("client-1",), architecture, training, *parts)

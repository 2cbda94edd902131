"""The shadow set of a curious client: images like the target's (P3 section 5)."""

from typing import Literal

import torch

from fluoroscope.federation.task import Task
from fluoroscope.rng import generator
from fluoroscope.types import LabelledImages

Shadow = Literal["overlapping", "disjoint"]
SHARE = 0.1
"""Of the target's training images that P3's attacker has."""


def shadow_set(task: Task, target: str, kind: Shadow, seed: int) -> LabelledImages:
    """A tenth of the target's training images, or as many of its kind that no client has: of the test set."""
    rng, batch = generator(seed, "shadow set"), task.images.batch
    own = next(list(client.train) for client in task.clients if client.name == target)
    count = max(1, round(SHARE * len(own)))
    order = torch.randperm(len(own), generator=rng).tolist()
    chosen = [own[i] for i in order[:count]]
    if kind == "disjoint":  # the same number of each class
        held_out = [task.partition.test[i] for i in torch.randperm(len(task.partition.test), generator=rng).tolist()]
        wanted = [str(label) for label in batch.labels[chosen].tolist()]
        chosen = [
            index
            for label in sorted(set(wanted))
            for index in [i for i in held_out if str(batch.labels[i].tolist()) == label][: wanted.count(label)]
        ]
    return LabelledImages(batch.images[chosen], batch.labels[chosen])

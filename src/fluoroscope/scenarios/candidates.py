"""Images of whom an inference attack asks: some that a client trained on, and as many of each class that nobody did."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fluoroscope.errors import Misconfigured
from fluoroscope.federation.task import Task
from fluoroscope.types import LabelledImages


class Case(NamedTuple):
    """What an attacker asks about, what else it has, and, for scoring alone, the answer."""

    candidates: LabelledImages
    pool: LabelledImages
    """The held-out images that are not asked about: of the same kind, and no client has them."""
    members: Tensor
    """(n,), bool: the truth."""
    strangers: tuple[int, ...]
    """The places of the others in the set of images."""


def matched_case(task: Task, own: Sequence[int], held_out: Sequence[int], count: int, rng: torch.Generator) -> Case:
    """At most `count` of a client's `own` training images, and as many of each class among those held out.

    A client of another mix than the held-out images is not told by its mix.

    Raises:
        Misconfigured: no held-out image has a class of the client's.
    """
    labels = task.images.batch.labels
    chosen, others = _shuffled(own, rng)[:count], _shuffled(held_out, rng)
    members, strangers = [], []
    for label in sorted({str(labels[i].tolist()) for i in chosen}):
        mine, theirs = ([i for i in side if str(labels[i].tolist()) == label] for side in (chosen, others))
        fewest = min(len(mine), len(theirs))
        members += mine[:fewest]
        strangers += theirs[:fewest]
    if not members:
        raise Misconfigured(f"{task.images.name}: no held-out image has a class of the victim's; load more images.")
    asked = set(strangers)
    pool = [i for i in others if i not in asked]
    truth = torch.arange(len(members) + len(strangers)) < len(members)
    return Case(records(task, [*members, *strangers]), records(task, pool), truth, tuple(strangers))


def records(task: Task, chosen: Sequence[int]) -> LabelledImages:
    """These images in an attacker's hands."""
    batch = task.images.batch
    return LabelledImages(batch.images[list(chosen)], batch.labels[list(chosen)])


def _shuffled(indices: Sequence[int], rng: torch.Generator) -> list[int]:
    return [indices[i] for i in torch.randperm(len(indices), generator=rng).tolist()]

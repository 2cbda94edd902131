"""Label distribution inference by name: how many images of each class a client holds, and what such attacks keep to."""

from typing import Protocol

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.inference.registry import Seen
from fluoroscope.errors import Unsupported
from fluoroscope.registry import Registry
from fluoroscope.types import Capability, LabelledImages


class LabelCountAttack(Protocol):
    """Settings as the fields of a frozen dataclass; what it needs to know; and the run."""

    @property
    def needs(self) -> frozenset[Capability]: ...

    def run(self, observations: Seen, rng: Generator) -> Tensor:
        """How many images of each class are behind each update.

        Returns:
            (observations, classes), int64; each row adds up to the client's number of images, which the training
            configuration tells.

        Raises:
            Unsupported: an observation lacks something of `needs`, or the attack cannot read such an update.
        """
        ...


LABEL_COUNT_ATTACKS: Registry[LabelCountAttack] = Registry("label_count_attacks")


def whole_counts(shares: Tensor, images: int) -> Tensor:
    """Counts (classes,) that add up to `images`, nearest to these shares: by the largest remainder.

    Shares below 0 count as 0, and where nothing is left all classes are alike.
    """
    wanted = shares.double().clamp_min(0)
    total = wanted.sum()
    wanted = wanted / total * images if total > 0 else torch.full_like(wanted, images / len(wanted))
    counts = wanted.floor()
    left = images - int(counts.sum())
    counts[torch.argsort(wanted - counts, descending=True, stable=True)[:left]] += 1
    return counts.long()


def by_class(attack: str, public: LabelledImages, classes: int) -> list[Tensor]:
    """The places of the public images of each class; an attack that learns from them needs some of every one."""
    if public.labels.ndim != 1:
        raise Unsupported(f"{attack} counts one class per image, and the public images have several findings each.")
    places = [(public.labels == c).nonzero()[:, 0] for c in range(classes)]
    if empty := [c for c, found in enumerate(places) if not len(found)]:
        raise Unsupported(
            f"{attack} learns from public images of every class, and there is none of class {empty[0]}: set a larger "
            "partition.auxiliary."
        )
    return places

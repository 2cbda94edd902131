"""A victim with phantoms, what a malicious server sends it, and what comes back."""

from collections import Counter
from functools import cache

import torch

from fluoroscope.attacks.imprint import MediLeak
from fluoroscope.attacks.imprint.bins import Bins
from fluoroscope.attacks.imprint.craft import Crafted
from fluoroscope.data import Request, load
from fluoroscope.federation.local_training import local_training
from fluoroscope.models import Architecture
from fluoroscope.types import LocalTraining, PrivateBatch, Sgd

LR = 0.01
FIRST = ("front.first.weight", "front.first.bias")


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@cache
def phantoms(images: int, seed: int, size: int = 28, channels: int = 1) -> PrivateBatch:
    batch = load("phantom/chest", Request(size=size, images=images, seed=seed)).batch
    return PrivateBatch(batch.images.repeat(1, channels, 1, 1), batch.labels, batch.patients)


def ellipses(images: int, seed: int, size: int = 28) -> PrivateBatch:
    """Binary, as segmentations are: no pixel is what its neighbours are at an edge, and much is black."""
    x, y, radius, ratio = torch.rand((4, images, 1, 1), generator=rng(seed))
    rows, columns = torch.arange(size)[:, None] / size, torch.arange(size) / size
    radius, ratio = 0.1 + 0.25 * radius, 0.5 + 1.5 * ratio
    inside = ((columns - 0.2 - 0.6 * x) / radius) ** 2 + ((rows - 0.2 - 0.6 * y) * ratio / radius) ** 2 < 1
    labels = torch.arange(images) % 2
    return PrivateBatch(inside.float()[:, None], labels, tuple(f"ellipse-{i}" for i in range(images)))


def one_step(images: int, epochs: int = 1) -> LocalTraining:
    return LocalTraining(Sgd(LR), images, images, epochs)


def crafted(
    leak: MediLeak, images: int, model: str = "lenet5", seed: int = 1, size: int = 28, channels: int = 1
) -> Crafted:
    """For a victim that takes one step on so many images; the attacker has 400 others."""
    own = phantoms(400, 99, size, channels)
    return leak.craft(Architecture(model, channels, 2, size), one_step(images), own.images, own.labels, rng(seed))


def update_of(sent: Crafted, batch: PrivateBatch, epochs: int = 1) -> dict[str, torch.Tensor]:
    """What the victim's crafted layer gained, exactly: float32 values subtract without loss in float64."""
    training = one_step(len(batch), epochs)
    after = local_training(sent.network.build(), sent.victim, batch, training, rng()).state
    return {name: after[name].double() - sent.victim[name].double() for name in FIRST}


def places(bins: Bins, images: torch.Tensor) -> torch.Tensor:
    """The bin of each image in each feature, (images, features)."""
    return torch.stack([bins.locate(i, feature(images)) for i, feature in enumerate(bins.features)], 1)


def peelable(where: torch.Tensor) -> int:
    """How many images an oracle peels that knows every image's bins: those alone in one, again and again."""
    left = set(range(len(where)))
    while True:
        held = Counter((f, int(where[i, f])) for i in left for f in range(where.shape[1]))
        alone = {i for i in left if any(held[f, int(where[i, f])] == 1 for f in range(where.shape[1]))}
        if not alone:
            return len(where) - len(left)
        left -= alone

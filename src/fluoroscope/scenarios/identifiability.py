"""Whose image a reconstruction shows: looked up among the images of a federation's clients (P1 II-D)."""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from fluoroscope.federation.task import Task
from fluoroscope.models.embedder import ImageNetEmbedder
from fluoroscope.scores.identifiability import chance, identify
from fluoroscope.types import PrivateBatch


@lru_cache(maxsize=2)
def _embedder(side: int) -> ImageNetEmbedder:
    """At the images' own side, up to 64: chosen on NIH's chest X-rays (docs/measured.md)."""
    return ImageNetEmbedder(size=min(64, side))


def embedded(images: Tensor) -> Tensor:
    """As an ImageNet-pretrained network sees them."""
    return _embedder(images.shape[-1])(images)


@lru_cache(maxsize=8)
def _pool(task: Task) -> tuple[Tensor, Tensor]:
    """The images that clients train or validate on, and their embeddings."""
    held = sorted({i for client in task.clients for i in (*client.train, *client.validation)})
    images = task.images.batch.images[held]
    return images, embedded(images)


def identified(task: Task, guesses: Tensor, victims: PrivateBatch, nearest: Sequence[int]) -> list[float]:
    """k-IIP of one client's reconstructions among the images of all clients and its own, for each k.

    Embeddings are centred by the mean of the pool before their cosines are taken: what all X-rays share tells nobody.
    """
    images, known = _pool(task)
    same = [(images == image).flatten(1).all(1) for image in victims.images]
    own = torch.stack(same).any(0)
    missing = torch.stack([~row.any() for row in same])
    more = victims.images[missing]
    pool = torch.cat([known, embedded(more)]) if len(more) else known
    trained_on = torch.cat([own, torch.ones(len(more), dtype=torch.bool)])
    mine = embedded(guesses.clamp(0, 1))
    centre = pool.mean(0)
    return [identify(mine - centre, pool - centre, trained_on, min(k, len(pool))).iip for k in nearest]


def identified_by_chance(task: Task, victims: PrivateBatch, guesses: int) -> float:
    """What as many guesses would reach that tell nothing."""
    return chance(guesses, max(len(_pool(task)[0]), len(victims)), len(victims))

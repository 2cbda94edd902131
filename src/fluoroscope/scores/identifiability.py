"""Image identifiability precision: whether a reconstruction points to the client whose update it came from (P1 II-D).

Reconstructions are looked up among the training and validation images of all clients, by the cosine similarity of
embeddings. Higher is leakier.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fluoroscope.errors import BadInput, Misconfigured

Embed = Callable[[Tensor], Tensor]
"""Images (n, channels, height, width) in [0, 1] to embeddings (n, features)."""


@dataclass(frozen=True, eq=False)
class Identification:
    """What each reconstruction points to. The first axis of every tensor is the reconstructions."""

    nearest: Tensor
    """(n, k), int64: rows of the pool, the most similar first."""
    similarity: Tensor
    """(n, k): their cosine similarities. NaN for a reconstruction that diverged."""
    hit: Tensor
    """(n,), int64: the first of the k nearest that the attacked client trained on; -1 where none is."""
    hit_similarity: Tensor
    """(n,): its cosine similarity, which P1 fig. 11 shows; NaN where there is no hit."""
    iip: float
    """Different images that were hit, by the images that the attacked client trained on."""
    chance: float
    """The IIP to expect of as many reconstructions, each with a random order of the pool."""

    @property
    def mean_similarity(self) -> float:
        """Of the reconstructions, those that diverged left out, to whichever image of the pool is nearest."""
        return float(self.similarity[:, 0].nanmean())

    @property
    def mean_hit_similarity(self) -> float:
        return float(self.hit_similarity.nanmean())


def identify(reconstructions: Tensor, pool: Tensor, trained_on: Tensor, k: int = 1) -> Identification:
    """IIP, and with k > 1 k-IIP, from embeddings (n, features) and (images, features).

    `trained_on` (images,) is True for the attacked client's training images. The pool holds every image once, those
    that two clients share too: of two copies, only one can be the nearest.
    """
    _check(reconstructions, pool, trained_on, k)
    # float64: near duplicates of an image differ from it in the eighth digit of the cosine.
    a, b = (F.normalize(embeddings.detach().double(), dim=1) for embeddings in (reconstructions, pool))
    similarity, nearest = (a @ b.T).topk(k, dim=1)
    trained_on = trained_on.to(nearest.device)
    hits = trained_on[nearest] & ~similarity.isnan()
    first = hits.int().argmax(1, keepdim=True)  # the first of equal maxima
    any_hit = hits.any(1)
    hit = nearest.gather(1, first)[:, 0].where(any_hit, -1)
    members = int(trained_on.sum())
    return Identification(
        nearest,
        similarity,
        hit,
        hit_similarity=similarity.gather(1, first)[:, 0].where(any_hit, math.nan),
        iip=len(set(hit[any_hit].tolist())) / members,
        chance=chance(len(reconstructions), len(pool), members, k),
    )


def identify_images(
    reconstructions: Tensor, pool: Tensor, trained_on: Tensor, embed: Embed, k: int = 1
) -> Identification:
    """The same from images; P1 embeds them with an ImageNet-pretrained network."""
    return identify(embed(reconstructions), embed(pool), trained_on, k)


def chance(reconstructions: int, pool: int, members: int, k: int = 1) -> float:
    """The expected k-IIP of reconstructions that tell nothing: a client with many images is hit by luck, too."""
    # One reconstruction hits with this probability, and then any of the members alike.
    some_member = 1 - math.comb(pool - members, k) / math.comb(pool, k)
    return 1 - (1 - some_member / members) ** reconstructions


def _check(reconstructions: Tensor, pool: Tensor, trained_on: Tensor, k: int) -> None:
    if reconstructions.ndim != 2 or pool.ndim != 2 or reconstructions.shape[1] != pool.shape[1]:
        raise BadInput(
            f"embeddings must be (n, features) with the same features, not {tuple(reconstructions.shape)} and "
            f"{tuple(pool.shape)}; embed both with the same network."
        )
    if trained_on.shape != pool.shape[:1] or trained_on.dtype != torch.bool:
        raise BadInput(
            f"trained_on must be a bool for each of the {len(pool)} images of the pool, not {trained_on.dtype} of "
            f"shape {tuple(trained_on.shape)}."
        )
    if not trained_on.any():
        raise BadInput("no image of the pool is the attacked client's; put its training images into the pool.")
    if not pool.isfinite().all():
        raise BadInput("the pool has embeddings that are not finite; take the images behind them out.")
    if not 1 <= k <= len(pool):
        raise Misconfigured(f"k must be from 1 to the {len(pool)} images of the pool, not {k}.")

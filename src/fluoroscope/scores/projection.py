"""Embeddings on a plane, for the eye: t-SNE (van der Maaten & Hinton 2008), as in P1 fig. 10.

A picture and not a score: how far groups lie apart means nothing. Who is next to whom goes by cosine, as in IIP.
"""

import math

import torch
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from fluoroscope.errors import BadInput, Misconfigured


def tsne(embeddings: Tensor, rng: torch.Generator, perplexity: float = 30.0) -> Tensor:
    """(n, features) as points (n, 2), float32; the same generator gives the same picture.

    `perplexity`, about the number of neighbours that a point keeps, is lowered to a third of the points where they are
    few. An embedding that is not finite, of a diverged reconstruction, becomes a point of NaN and moves no other.
    """
    if embeddings.ndim != 2 or embeddings.shape[1] < 2:
        raise BadInput(f"t-SNE needs embeddings (n, 2 features or more), not shape {tuple(embeddings.shape)}.")
    if not 1 <= perplexity < math.inf:
        raise Misconfigured(f"perplexity must be at least 1, not {perplexity:g}; 5 to 50 is usual.")
    finite = embeddings.isfinite().all(1).cpu()
    given = embeddings.detach().cpu().double()[finite]
    points = torch.full((len(embeddings), 2), math.nan)
    seed = int(torch.randint(2**31 - 1, (), generator=rng))
    if len(given) < 2:
        points[finite] = 0.0
        return points
    method = TSNE(
        perplexity=min(perplexity, max(1.0, (len(given) - 1) / 3)),
        metric="cosine",
        # Principal components keep more of the whole; equal embeddings have none.
        init="pca" if (given != given[0]).any() else "random",
        random_state=seed,
    )
    # One thread: more would add up in another order, and the picture would depend on the machine.
    with threadpool_limits(limits=1):
        points[finite] = torch.from_numpy(method.fit_transform(given.numpy()))
    return points

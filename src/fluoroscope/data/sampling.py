"""A seeded sample that keeps the classes' proportions."""

from collections.abc import Sequence

import numpy as np

from fluoroscope.rng import numpy_generator


def stratified_sample(labels: Sequence[str] | Sequence[int], count: int | None, seed: int) -> list[int]:
    """At most `count` positions in ascending order, at least one of each class where `count` allows it."""
    if count is None or count >= len(labels):
        return list(range(len(labels)))
    rng = numpy_generator(seed, "sample")
    values, coded, sizes = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    shares = sizes * count / sizes.sum()
    take = np.floor(shares).astype(int)
    if count >= len(values):
        take = np.maximum(take, 1)
    while take.sum() != count:  # hand out (or take back) one by one where it deviates most from the proportion
        short = take.sum() < count
        gap = np.where(take < sizes, shares - take, -np.inf) if short else np.where(take > 1, take - shares, -np.inf)
        take[int(np.argmax(gap))] += 1 if short else -1
    chosen = [rng.permutation(np.flatnonzero(coded == value))[:n] for value, n in enumerate(take)]
    return sorted(int(i) for i in np.concatenate(chosen))

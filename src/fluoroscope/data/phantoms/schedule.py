"""Who is on image number i, and what ails them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from fluoroscope.rng import numpy_generator


@dataclass(frozen=True)
class Visit:
    """One image: whose it is, named by the number of that patient's first image, and the class."""

    patient: int
    label: int


@lru_cache(maxsize=4096)
def _block(kind: str, quotas: tuple[int, ...], seed: int, number: int) -> tuple[Visit, ...]:
    """Every class exactly as often as its quota says, well spread: any stretch of the set is close to the ratios."""
    rng = numpy_generator(seed, "phantom", kind, "block", number)
    patients: list[tuple[float, int, int]] = []
    for label, quota in enumerate(quotas):
        # A rare class comes early in the block, so that small sets hold it too.
        shift = rng.uniform(0.1, 0.4)
        done = 0
        while done < quota:
            images = min(int(rng.choice((1, 1, 1, 1, 2, 2, 3))), quota - done)
            patients.append(((done + shift + rng.uniform(0, 0.5)) / quota, label, images))
            done += images
    visits: list[Visit] = []
    for _, label, images in sorted(patients):
        first = number * sum(quotas) + len(visits)
        visits += [Visit(first, label)] * images
    return tuple(visits)


def schedule(kind: str, quotas: tuple[int, ...], seed: int, indices: Sequence[int]) -> list[Visit]:
    """The visits behind these image numbers; each depends on the seed and its own number alone."""
    length = sum(quotas)
    return [_block(kind, quotas, seed, i // length)[i % length] for i in indices]

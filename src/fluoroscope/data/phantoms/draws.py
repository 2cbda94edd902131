"""Random numbers for many patients or images at once, each row on a stream of its own."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluoroscope.rng import derive

Floats = NDArray[np.floating[Any]]
"""float32 throughout; numpy's stubs lose the width in mixed expressions."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output function of SplitMix64 (Steele, Lea and Flood 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


class Draws:
    """SplitMix64 counts through its stream, so a row's numbers do not depend on which other rows are drawn with it.

    A draw without a count has shape (rows, 1, 1) and spreads over pixels; with a count it has shape (rows, count).
    """

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        self._keys = keys
        self._position = 0

    @classmethod
    def of(cls, seed: int, role: str, rows: Sequence[int]) -> "Draws":
        return cls(np.array([derive(seed, role, row) for row in rows], dtype=np.uint64))

    def child(self, name: str) -> "Draws":
        """An unrelated stream, so that a change to the ribs leaves the heart alone."""
        return Draws(_mix(self._keys ^ np.uint64(derive(0, name))))

    def _words(self, count: int) -> NDArray[np.uint64]:
        steps = np.arange(self._position + 1, self._position + count + 1, dtype=np.uint64)
        self._position += count
        return _mix(self._keys[:, None] + steps * _GOLDEN)

    def uniform(self, low: float = 0.0, high: float = 1.0, count: int | None = None) -> Floats:
        unit = (self._words(count or 1) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
        return self._shaped(low + (high - low) * unit, count)

    def normal(self, mean: float = 0.0, deviation: float = 1.0, count: int | None = None) -> Floats:
        """Sum of four uniforms: near enough to a bell, and never further out than 3.5 deviations."""
        words = self._words(count or 1)
        parts = words.view(np.uint16).reshape(*words.shape, 4).astype(np.float32).sum(-1)
        unit = (parts * np.float32(2.0**-16) - 2.0) * np.float32(3.0**0.5)
        return self._shaped(mean + deviation * unit, count)

    def chance(self, probability: float, count: int | None = None) -> Floats:
        """1 with this probability, else 0."""
        return (self.uniform(count=count) < probability).astype(np.float32)

    def choice(self, options: int) -> NDArray[np.int64]:
        """(rows,) numbers from 0 to options - 1."""
        return np.floor(self.uniform()[:, 0, 0] * options).astype(np.int64)

    def _shaped(self, values: Floats, count: int | None) -> Floats:
        return values[:, :, None] if count is None else values

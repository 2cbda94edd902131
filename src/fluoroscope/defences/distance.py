"""How far apart the clients of a round are (P3 section 6)."""

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import torch

from fluoroscope.types import State

Layers = Literal["arrays", "weights"]


def distance(cohort: Sequence[State], layers: Layers = "arrays") -> float:
    """d: over all pairs the largest mean, over the layers, of the Frobenius norm of their difference.

    A layer is every array, or every weight matrix and kernel: P3's text allows both.
    """
    names = [name for name, value in cohort[0].items() if layers == "arrays" or value.ndim > 1]
    pairs = [
        torch.stack([torch.linalg.vector_norm(a[name] - b[name]) for name in names]).mean()
        for a, b in combinations(cohort, 2)
    ]
    return float(torch.stack(pairs).max()) if pairs else 0.0

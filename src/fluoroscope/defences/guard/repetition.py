"""Repeated rows and columns, whatever their order and scale, and the directions that a layer really has.

Bins need many units that measure the same thing. Fresh weights point everywhere; training adds a few strong directions
to them (after some steps of Adam on inputs that are never negative, rows are nearly parallel). So few directions alone
prove nothing, and only copies to a thousandth are refused here; `staircase` asks what the units do with them.
"""

import math

import torch
from torch import Tensor

from fluoroscope.defences.guard.layers import Layer
from fluoroscope.defences.guard.verdict import Reason
from fluoroscope.rng import generator

SAME = 1e-3
"""Of a row's norm. Training from random weights never brings two rows this close."""
MOST_ROWS, MOST_COLUMNS = 512, 4096
MOST_COMPARED, DIRECTIONS = 4096, 128
ENOUGH = 24
"""Copies of a row that are too many in a layer of any width."""
COARSE = 64
FEWEST, SHORTEST = 8, 12
"""Rows that are worth comparing, and values in each: short rows of coarse numbers meet by chance."""


def repetition(layer: Layer) -> list[Reason]:
    """Refuses a layer in which rows, or half the columns, are copies of another."""
    reasons = []
    for what, matrix in (("rows", layer.weight), ("columns", layer.weight.T)):
        few = 2 if layer.last and what == "rows" else FEWEST
        if len(matrix) < few or matrix.shape[1] < SHORTEST:
            continue
        copies = copied(matrix, layer.seed) if not _coarse(matrix, layer.seed) else 0.0
        enough = min(0.1, ENOUGH / len(matrix)) if what == "rows" else 0.5
        # Columns of coarse numbers can stay together as they began.
        if copies >= enough and copies * len(matrix) >= min(few, 4):
            reasons.append(
                Reason(
                    "repetition",
                    layer.name,
                    "refuse",
                    f"In {layer.name}, {copies:.0%} of the {what} are copies of one another: chance or training "
                    "never give that. Units that measure the same thing with different thresholds sort the images into "
                    "bins, and an image that is alone in its bin is handed over.",
                    {f"share of {what} that are copies": copies},
                )
            )
    return reasons


def _coarse(matrix: Tensor, seed: int) -> bool:
    """Rounded to a few values, as by quantisation, under which neighbours fall together."""
    return 2 < len(torch.unique(sample(matrix, seed))) <= COARSE


def copied(matrix: Tensor, seed: int = 0) -> float:
    """The share of rows that equal another row to within a thousandth; rows of zeros do not count.

    All rows are compared, by what they are along some directions that nobody knows beforehand.
    """
    norms = matrix.norm(dim=1)
    rows = matrix[norms > SAME * norms.max()]
    if len(rows) < 0.5 * len(norms) or len(rows) < 2:
        return 0.0
    if len(rows) > MOST_COMPARED:
        rows = rows[torch.randperm(len(rows), generator=generator(seed, "guard", "copied"))[:MOST_COMPARED]]
    if rows.shape[1] > DIRECTIONS:
        draw = torch.randn(rows.shape[1], DIRECTIONS, generator=generator(seed, "guard", "directions"))
        rows = rows.float() @ draw / DIRECTIONS**0.5  # lengths stay what they are, to a tenth
    sizes = rows.double().norm(dim=1)
    apart = torch.cdist(rows.double(), rows.double()) / sizes.clamp_min(1e-30)
    apart.fill_diagonal_(torch.inf)
    return float((apart.amin(dim=1) < SAME).double().mean())


def concentration(weight: Tensor, least: float = 0.0, directions: int | None = None, seed: int = 0) -> float:
    """The share of the rows' energy that lies in a handful of directions: .99 for noised bins, a tenth for fresh rows.

    Each row is scaled to norm 1, so neither order nor scale matters, and noise of a tenth of a row's norm is a
    hundredth of its energy. Bins over one feature need one direction or two, so a handful is 12, or fewer where the
    layer is small. Where it is surely below `least`, 0 is returned, which saves the spectrum.
    """
    rows = sample(weight, seed)
    norms = rows.norm(dim=1)
    rows = rows[norms > 1e-6 * norms.max().clamp_min(1e-30)]
    k, d = rows.shape
    if k < 2:
        return 0.0
    rows = rows / rows.norm(dim=1, keepdim=True)
    gram = (rows @ rows.T if k <= d else rows.T @ rows).double()
    few = handful(k, d) if directions is None else directions
    if float((few * gram.square().sum()).sqrt()) < least * k:  # Cauchy and Schwarz
        return 0.0
    return float(torch.linalg.eigvalsh(gram)[-few:].sum() / k)


def by_chance(k: int, d: int) -> float:
    """The concentration that random rows have at most (Marchenko and Pastur)."""
    return min(1.0, handful(k, d) * (1 + math.sqrt(k / d)) ** 2 / k)


def handful(k: int, d: int) -> int:
    """Directions that count as few in a layer of k units with d inputs."""
    return max(1, min(12, k // 8, d // 4))


def sample(matrix: Tensor, seed: int = 0) -> Tensor:
    """Some rows and columns, drawn by the client: so nobody knows which, and the largest layer takes no longer."""
    rng = generator(seed, "guard", "sample", *matrix.shape)
    k = len(matrix)
    if k > MOST_ROWS:
        matrix = matrix[torch.randperm(k, generator=rng)[:MOST_ROWS]]
    return columns(matrix, seed)


def columns(matrix: Tensor, seed: int = 0) -> Tensor:
    """Some columns, all rows."""
    d = matrix.shape[1]
    rng = generator(seed, "guard", "columns", d)
    return matrix[:, torch.randperm(d, generator=rng)[:MOST_COLUMNS]] if d > MOST_COLUMNS else matrix

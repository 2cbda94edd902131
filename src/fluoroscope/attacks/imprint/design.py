"""Which triple of bins is in which bin, and what that determines."""

import torch
from torch import Tensor

DETERMINED = 1e-6
"""Of an image, squared: what no other combination of triples can take from it."""


def inverse_of(design: Tensor) -> tuple[Tensor, Tensor]:
    """The pseudo-inverse, and which columns no combination of the others could replace."""
    values, vectors = torch.linalg.eigh(design @ design.T)
    known = values > 1e-9
    turned = design.T @ vectors[:, known]
    return (turned / values[known]) @ vectors[:, known].T, 1 - (turned.square() / values[known]).sum(1) < DETERMINED


def design_of(triples: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The bins of the triples, which triple is in which (bins, triples), and the place of each triple's bins there."""
    rows, index = torch.unique(triples, return_inverse=True)
    design = torch.zeros(len(rows), len(triples), dtype=torch.float64)
    design[index, torch.arange(len(triples))[:, None]] = 1
    return rows, design, index

"""Feature maps all of whose patches lie in a known span."""

import warnings
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fluoroscope.attacks.closed_form.span.layers import Layer

ITERATIONS = 300
TOLERANCE = 1e-7
SPARE = 3
"""Vectors beyond those wanted: they speed up the others and show the gap."""
LEAST_OUTSIDE = 1e-2
"""Of a map's norm: what a map that is no image's has outside the span."""
OUTSIDE = 0.5
"""Of the first map that is no image's: what stands so far outside the span shows no image either."""


class Maps(NamedTuple):
    """An orthonormal basis of feature maps."""

    basis: Tensor
    """(count, channels, h, w), the best known first."""
    outside: Tensor
    """(count,): how far each stands outside the span, over the nearest map that is no image's; 0 without noise."""


def feature_maps(span: Tensor, layer: Layer, count: int, rng: torch.Generator) -> Maps | None:
    """The maps whose patches, minus their mean, lie in `span`.

    Those are the maps of `count` images and their mixtures: the null space of h -> |(1 - P) (patches(h) - mean)|^2, or
    what noise leaves of it, which may be fewer. None where there is no such map.
    """
    size = layer.shape[0] * layer.shape[1] * layer.shape[2]
    if size < 5 * (count + SPARE):  # what LOBPCG needs
        return None

    def apply(columns: NDArray[np.float64]) -> NDArray[np.float64]:
        maps = torch.from_numpy(np.ascontiguousarray(columns.reshape(size, -1).T)).view(-1, *layer.shape)
        return layer.fold(outside(span, layer.patches(maps))).flatten(1).T.numpy()

    start = torch.randn((size, count + SPARE), generator=rng, dtype=torch.float64).numpy()
    from scipy.sparse.linalg import LinearOperator, lobpcg  # slow, and every attack imports this file

    operator = LinearOperator((size, size), matvec=apply, matmat=apply, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the spare vectors need not converge
        values, vectors = lobpcg(operator, start, largest=False, tol=TOLERANCE, maxiter=ITERATIONS)
    off = torch.from_numpy(values).clamp_min(0).sqrt()
    if off[count] < LEAST_OUTSIDE:  # more maps than images: there are others, or the span is everything
        return None
    off = off[:count] / off[count]
    known = int((off < OUTSIDE).sum())
    basis = torch.from_numpy(np.ascontiguousarray(vectors[:, :known].T)).view(known, *layer.shape)
    return Maps(basis, off[:known]) if known else None


def outside(span: Tensor, patches: Tensor) -> Tensor:
    """The part of (n, columns, positions) patches, minus each image's mean, that is not in the span.

    A projection where the span is known for certain.
    """
    centred = patches - patches.mean(2, keepdim=True)
    return centred - span.T @ (span @ centred)

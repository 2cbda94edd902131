"""From a dense layer's gradient to its inputs, image by image."""

import torch
from torch import Tensor

from fluoroscope.attacks.closed_form.dense.independent_components import unmixing_of
from fluoroscope.attacks.closed_form.dense.layers import Dense
from fluoroscope.attacks.closed_form.span.row_space import row_space
from fluoroscope.attacks.closed_form.span.unmixing import rectified, unmix

LEAST_BIAS = 1e-6
"""Of its typical value: a source whose share of the bias's gradient is smaller has no scale that could be read."""
LEAST_GRID = 4
"""A side of maps below which their corners are too few to be compared by."""
NEGATIVE = 0.3
"""Of the norm of a component behind a ReLU, what may lie below zero: beyond it, it is a mixture."""


def dense_inputs(
    layer: Dense,
    weight: Tensor,
    bias: Tensor | None,
    count: int,
    rng: torch.Generator,
) -> Tensor | None:
    """The inputs (found, values) of a dense layer behind its gradients, float64.

    With their true scale and sign where the bias was trained, else of norm 1 and positive in the mean; those out of a
    ReLU are of norm 1. None where the update does not show as many images.

    Args:
        layer: what is known of the layer.
        weight: the gradient of its weights, or the sum of several steps'.
        bias: that of its bias.
        count: how many images there are, at most.
        rng: of the starts.
    """
    if not layer.sparse:
        return _independent(layer, weight, bias, count, rng)
    basis = row_space(weight, count)
    if basis is None:
        return None
    single = unmix(basis[:, :, None, None], rng).flatten(1)
    if len(single) == count:
        return single
    # Zeros that all images share tell none of them: then components may, those that a ReLU can have made.
    others = _independent(layer, weight, bias, count, rng)
    others = single[:0] if others is None else others[rectified(others, NEGATIVE)]
    return single if len(single) >= len(others) else others


def _independent(layer: Dense, weight: Tensor, bias: Tensor | None, count: int, rng: torch.Generator) -> Tensor | None:
    scale = 0.0
    matrix = weight.double()
    if bias is not None and bool(bias.any()):
        # The bias is the weight of an input of 1: beside the others it tells what 1 is, and as large as they are.
        scale = float(matrix.norm() / bias.double().norm() / matrix.shape[1] ** 0.5)
        matrix = torch.cat([matrix, scale * bias.double()[:, None]], 1)
    basis = row_space(matrix, count)
    if basis is None:
        return None
    sources = basis
    if len(basis) > 1:
        told = basis[:, : layer.inputs]
        wide = layer.grid is not None and min(layer.grid[1:]) >= LEAST_GRID
        samples = corners(told.view(-1, *layer.grid)) if wide and layer.grid is not None else told
        sources = unmixing_of(samples, rng) @ basis
    values, one = sources[:, : layer.inputs], sources[:, layer.inputs :]
    if scale and bool((one.abs() > LEAST_BIAS * one.abs().max()).all()):
        return values * scale / one
    return torch.nn.functional.normalize(values * torch.sign(values.sum(1, keepdim=True)))


def corners(maps: Tensor) -> Tensor:
    """(n, channels, h, w) -> (n, values): the mixed second difference, down and across.

    Zero but where an edge bends. Edges themselves lie alike in all patients; where they bend is each one's own.
    """
    return maps.diff(dim=2).diff(dim=3).flatten(1)

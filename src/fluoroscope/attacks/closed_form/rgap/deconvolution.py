"""The way back through a convolution: its input from its weight gradient and its output, by least squares."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.grad import conv2d_input

NOISE = 1e-6
"""Relative error of what the client sends (float32) and of what earlier layers recovered: it weighs the equations."""
PRIOR = 4.0
"""1 / variance."""
REFINEMENTS = 3
"""Newton steps on a quadratic: one would do, were the systems not stiff."""
ENOUGH = 2
"""Outputs for each pixel that tell the image without the weight gradient."""
AGREES = 1e-5
"""How far the weight gradient may then be off, or it is asked too."""
SCATTER = 100
"""Adding to an entry of a matrix costs about as much as so many multiplications of a matrix product."""

STRIPES = 4
"""Of a symmetric matrix: (n + 1) / 2n of it is multiplied out for n of them."""


def padding(layer: nn.Conv2d) -> tuple[int, ...]:
    """As numbers."""
    assert not isinstance(layer.padding, str)  # R-GAP lets no name through
    return layer.padding


def before_convolution(
    layer: nn.Conv2d,
    weight: Tensor,
    gradient: Tensor,
    output: Tensor,
    delta: Tensor,
    error: Tensor,
    shape: tuple[int, ...],
) -> tuple[Tensor, Tensor]:
    """The most likely input x given its weight gradient, delta * x, and its output, weight * x; and its own delta.

    Each equation weighs as much as it is exact. A faint prior, N(1/2, 1/4), settles pixels that no window touches.
    """
    out, channels, *_ = weight.shape
    pixels = shape[1] * shape[2]
    index = torch.arange(1, pixels + 1, dtype=torch.float64).reshape(1, 1, *shape[1:])
    window = F.unfold(index, layer.kernel_size, layer.dilation, padding(layer), layer.stride)[0].long()  # 0: padding
    taps, positions = window.shape

    def forward(x: Tensor) -> Tensor:
        return F.conv2d(x.reshape(1, *shape), weight, None, layer.stride, padding(layer), layer.dilation)[0]

    def back(y: Tensor) -> Tensor:
        """The transpose of `forward`."""
        at = y.reshape(1, *output.shape)
        x: Tensor = conv2d_input((1, *shape), weight, at, layer.stride, padding(layer), layer.dilation)  # type: ignore[no-untyped-call]
        return x.reshape(channels, pixels)

    # (out taps, pixels), the same for every input channel: the weight gradient is a correlation with delta.
    by_gradient = torch.zeros(out, taps, pixels + 1, dtype=torch.float64)
    by_gradient.scatter_(2, window.expand(out, -1, -1), delta.reshape(out, 1, positions).expand(-1, taps, -1))
    by_gradient = by_gradient[..., 1:].reshape(out * taps, pixels)
    seen = gradient.reshape(out, channels, taps).transpose(1, 2).reshape(out * taps, channels)
    sure = float((NOISE * seen.square().mean().sqrt()) ** -2)
    certain = error**-2
    if channels == 1 and out * positions >= ENOUGH * pixels:  # the first layer: its output alone tells the image
        alone = _from_output(weight.flatten(1), window, output.flatten(1), certain.flatten(1), pixels)
        if torch.linalg.vector_norm(by_gradient @ alone - seen[:, 0]) < AGREES * torch.linalg.vector_norm(seen):
            return alone.reshape(shape), back(delta).reshape(shape)

    def pull(x: Tensor) -> Tensor:
        """Minus the gradient of the squared errors at x (channels, pixels)."""
        by_weights = sure * (by_gradient.T @ (seen - by_gradient @ x.T)).T
        return PRIOR * (0.5 - x) + by_weights + back(certain * (output - forward(x)))

    curvature = sure * by_gradient.T @ by_gradient
    by_taps = weight.flatten(2)
    if out * positions < channels * pixels:
        solve = _solve_by_output(curvature, by_taps, window, certain.flatten(), forward, back)
    else:
        solve = _solve_by_input(curvature, by_taps, window, certain.flatten(1))
    x = torch.full((channels, pixels), 0.5, dtype=torch.float64)
    for _ in range(REFINEMENTS):
        x = x + solve(pull(x))
    return x.reshape(shape), back(delta).reshape(shape)


Map = Callable[[Tensor], Tensor]


def _from_output(weight: Tensor, window: Tensor, output: Tensor, certain: Tensor, pixels: int) -> Tensor:
    """The image (pixels,) of one channel from the output (out, positions). Windows are small, so it is banded."""
    products = torch.einsum("op,oa,ob->pab", certain, weight, weight)
    row, column = window.T[:, :, None], window.T[:, None]  # pixel 0 is the padding
    normal = torch.zeros((pixels + 1) ** 2, dtype=torch.float64)
    normal.index_add_(0, (row * (pixels + 1) + column).flatten(), products.flatten())
    right = torch.full((pixels + 1,), PRIOR / 2, dtype=torch.float64)
    right.index_add_(0, window.T.flatten(), (weight.T @ (certain * output)).T.flatten())
    inside = normal.reshape(pixels + 1, pixels + 1)[1:, 1:]
    inside.diagonal().add_(PRIOR)
    width = int((row - column).where((row > 0) & (column > 0), 0).max())
    return _solve_banded(inside, right[1:], max(width, 1))


def _solve_banded(matrix: Tensor, right: Tensor, width: int) -> Tensor:
    """Block by block, each of the bandwidth's size and so beside its neighbours only: Cholesky, there and back."""
    factors: list[Tensor] = []
    links: list[Tensor] = []
    found: list[Tensor] = []
    starts = range(0, len(right), width)
    for start in starts:
        block, part = matrix[start : start + width, start : start + width], right[start : start + width]
        if factors:
            beside = matrix[start - width : start, start : start + width]
            links.append(torch.linalg.solve_triangular(factors[-1], beside, upper=False))
            block, part = block - links[-1].T @ links[-1], part - links[-1].T @ found[-1]
        factors.append(torch.linalg.cholesky(block))
        found.append(torch.linalg.solve_triangular(factors[-1], part[:, None], upper=False)[:, 0])
    for i in reversed(range(len(found))):
        rest = found[i] if i + 1 == len(found) else found[i] - links[i] @ found[i + 1]
        found[i] = torch.linalg.solve_triangular(factors[i].T, rest[:, None], upper=True)[:, 0]
    return torch.cat(found)


def _solve_by_input(curvature: Tensor, weight: Tensor, window: Tensor, certain: Tensor) -> Map:
    """Normal equations over the inputs: for layers that put out at least as much as they take in."""
    out, channels, taps = weight.shape
    (_, positions), pixels = window.shape, len(curvature)
    unknowns = channels * pixels
    if SCATTER * positions * (channels * taps) ** 2 < out * positions * unknowns**2:  # few taps: window by window
        of_window = weight.flatten(1)
        products = torch.einsum("op,oa,ob->pab", certain, of_window, of_window)
        column = (torch.arange(channels)[:, None, None] * (pixels + 1) + window).flatten(0, 1).T  # (positions, taps)
        entry = column[:, :, None] * (channels * (pixels + 1)) + column[:, None]
        padded = torch.zeros(channels * (pixels + 1), channels * (pixels + 1), dtype=torch.float64)
        padded.view(-1).index_add_(0, entry.flatten(), products.flatten())
        inside = padded.reshape(channels, pixels + 1, channels, pixels + 1)[:, 1:, :, 1:]
        normal = inside.reshape(unknowns, unknowns)
    else:
        full = torch.zeros(out, positions, channels, pixels + 1, dtype=torch.float64)
        index = window.T[:, None].expand(out, positions, channels, taps)
        full.scatter_(3, index, weight[:, None].expand(out, positions, channels, taps))
        forward = full[..., 1:].reshape(out * positions, unknowns)
        normal = _lower_product(forward, forward * certain.reshape(-1, 1))
    for start in range(0, unknowns, pixels):
        normal[start : start + pixels, start : start + pixels] += curvature
    normal.diagonal().add_(PRIOR)
    factor = torch.linalg.cholesky(normal)
    return lambda pulled: torch.cholesky_solve(pulled.reshape(-1, 1), factor).reshape(pulled.shape)


def _lower_product(a: Tensor, b: Tensor) -> Tensor:
    """a.T @ b where that is symmetric, but for most of what lies above the diagonal: Cholesky reads what lies below."""
    size = a.shape[1]
    step = max(1, -(-size // STRIPES))
    found = a.new_zeros(size, size)
    for start in range(0, size, step):
        found[start:, start : start + step] = a[:, start:].T @ b[:, start : start + step]
    return found


def _solve_by_output(
    curvature: Tensor, weight: Tensor, window: Tensor, certain: Tensor, forward: Map, back: Map
) -> Map:
    """The same through the outputs (Woodbury): for layers that put out less, where the weight gradient says more."""
    strength, basis = torch.linalg.eigh(curvature)
    spread = (basis / (PRIOR + strength.clamp(min=0))) @ basis.T  # covariance of a channel, given the weight gradient

    # F (spread of every channel) F' for the forward matrix F. Channels share one spread, so their weights are summed
    # first: sum over taps t, u of (sum_c w_oct w_ncu) spread[pixel of t at p, pixel of u at q].
    out, _, taps = weight.shape
    positions = window.shape[1]
    padded = F.pad(spread, (1, 0, 1, 0))  # pixel 0 is the padding
    by_taps = padded[window.flatten()][:, window.flatten()].reshape(taps, positions, taps, positions)
    first, second = torch.tril_indices(out, out)  # Cholesky reads the lower triangle only
    pairs = torch.einsum("oct,ncu->ontu", weight, weight)[first, second].flatten(1)
    blocks = pairs @ by_taps.transpose(1, 2).reshape(taps * taps, -1)
    by_blocks = torch.zeros(out, out, positions, positions, dtype=torch.float64)
    by_blocks[first, second] = blocks.reshape(-1, positions, positions)
    gram = by_blocks.transpose(1, 2).reshape(out * positions, -1)
    gram.diagonal().add_(1 / certain)
    factor = torch.linalg.cholesky(gram)

    def solve(pulled: Tensor) -> Tensor:
        first = pulled @ spread
        missing = torch.cholesky_solve(forward(first).reshape(-1, 1), factor)
        step: Tensor = first - back(missing) @ spread
        return step

    return solve

"""How alike two images are: SSIM, MSE and PSNR of float images (n, channels, height, width) on the scale [0, 1].

Values outside [0, 1] are taken as they come; the scale stays. A score of an image that holds NaN is NaN.
SSIM is that of Wang et al. 2004 as scikit-image counts it: Gaussian window of 11 pixels with sigma 1.5, population
covariance, and the mean over channels and over all windows that lie inside the image.
"""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from threading import Lock

import torch
from torch import Tensor

from fluoroscope.errors import BadInput, Misconfigured

SIGMA = 1.5
RADIUS = 5
"""3.5 sigma, rounded as scipy does."""
WINDOW = 2 * RADIUS + 1
C1, C2 = 0.01**2, 0.03**2
"""Wang's K1 = 0.01 and K2 = 0.03 at a data range of 1."""

_PAIRS_AT_ONCE = 64
_FEWEST_A_THREAD = 64
"""Images of `a`; with fewer, calling torch costs more than what it computes."""
_ONE_CALLER = Lock()
"""torch's number of threads is the process's: two callers would restore each other's."""


def ssim(a: Tensor, b: Tensor) -> Tensor:
    """SSIM of each image of `a` with its partner in `b`: (n,), in float64 inside."""
    a, b = _comparable(a, b)
    _partners(a, b)
    _fits_a_window(a)
    down, across = (_band(size, a.device) for size in a.shape[-2:])

    def local_mean(x: Tensor) -> Tensor:
        return down @ (x @ across.T)

    def of_few(x: Tensor, y: Tensor) -> Tensor:
        mean_x, mean_y = local_mean(x), local_mean(y)
        variances = local_mean(x.square() + y.square()) - mean_x.square() - mean_y.square()
        covariance = local_mean(x * y) - mean_x * mean_y
        luminance = (2 * mean_x * mean_y + C1) / (mean_x.square() + mean_y.square() + C1)
        return (luminance * (2 * covariance + C2) / (variances + C2)).mean((1, 2, 3))

    few = zip(torch.split(a, _PAIRS_AT_ONCE), torch.split(b, _PAIRS_AT_ONCE), strict=True)
    return torch.cat([of_few(x.double(), y.double()) for x, y in few]).to(a.dtype)


def mse(a: Tensor, b: Tensor) -> Tensor:
    """Mean squared error of each image of `a` with its partner in `b`: (n,)."""
    a, b = _comparable(a, b)
    _partners(a, b)
    return (a - b).square().flatten(1).mean(1)


def psnr(a: Tensor, b: Tensor) -> Tensor:
    """Peak signal-to-noise ratio in dB of each image with its partner: (n,); infinite for identical images."""
    return decibels(mse(a, b))


def decibels(error: Tensor) -> Tensor:
    """PSNR of a mean squared error at a peak of 1. Never clipped: P2's exact recoveries exceed 100 dB."""
    return -10 * error.log10()


def ssim_matrix(a: Tensor, b: Tensor, memory: int = 2**26) -> Tensor:
    """SSIM of every image of `a` with every one of `b`: (n, m), in about `memory` bytes beside the result.

    Pairs are worked through in blocks as large as `memory` allows; the more the faster. No gradient flows.
    """
    a, b = (images.detach() for images in _comparable(a, b))
    _fits_a_window(a)
    scores = a.new_empty(len(a), len(b))
    with _threads(a.device) as threads:
        side = _block_side(memory, threads, width=a.shape[-1], itemsize=a.element_size())
        tall = min(side, max(_FEWEST_A_THREAD, -(-len(a) // threads)))

        def fill(corner: tuple[int, int]) -> None:
            rows, columns = slice(corner[0], corner[0] + tall), slice(corner[1], corner[1] + side)
            scores[rows, columns] = _ssim_block(a[rows], b[columns])

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, product(range(0, len(a), tall), range(0, len(b), side))))
    return scores


def mse_matrix(a: Tensor, b: Tensor) -> Tensor:
    """Mean squared error of every image of `a` with every one of `b`: (n, m); exactly 0 for identical images."""
    a, b = _comparable(a, b)
    # |a|^2 + |b|^2 - 2ab would be faster and would give identical images an error of rounding, a PSNR of about 70 dB.
    distances = torch.cdist(a.flatten(1), b.flatten(1), compute_mode="donot_use_mm_for_euclid_dist")
    return distances.square() / a.shape[1:].numel()


def _ssim_block(a: Tensor, b: Tensor) -> Tensor:
    """SSIM of all pairs, window by window: the covariances of all pairs in one window are one matrix product.

    Every window is centred before the product, so that float32 has nothing to cancel: accurate where images are flat.
    """
    _, channels, height, width = a.shape
    rows, columns = height - 2 * RADIUS, width - 2 * RADIUS
    line = _gaussian(a.device).to(a.dtype)
    root = torch.outer(line, line).sqrt().flatten()[:, None]
    total = a.new_zeros(len(a), len(b))
    for channel in range(channels):
        for y in range(rows):
            strip_a, strip_b = (_strip(images[:, channel, y : y + WINDOW]) for images in (a, b))
            means_a, means_b = _means(strip_a, line), _means(strip_b, line)
            row = torch.zeros_like(total)  # summed by rows: float32 loses digits in one long sum
            for x in range(columns):
                mean_a, mean_b = means_a[x], means_b[x]
                spread_a, spread_b = _spread(strip_a, mean_a, root, x), _spread(strip_b, mean_b, root, x)
                variance_a, variance_b = spread_a.square().sum(0), spread_b.square().sum(0)
                numerator = ((2 * spread_a).T @ spread_b).add_(C2)
                numerator *= torch.outer(2 * mean_a, mean_b).add_(C1)
                denominator = (mean_a.square() + C1)[:, None] + mean_b.square()
                denominator *= (variance_a + C2)[:, None] + variance_b
                row.addcdiv_(numerator, denominator)
            total += row / columns
    return total / (rows * channels)


@contextmanager
def _threads(device: torch.device) -> Iterator[int]:
    """How many blocks to work on at once, each on one thread of its own: torch's threads, while this lasts.

    Thousands of small operations follow, and on a busy machine torch's threads would wait for one another in each.
    """
    with _ONE_CALLER:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield threads if device.type == "cpu" else 1
        finally:
            torch.set_num_threads(threads)


def _strip(rows: Tensor) -> Tensor:
    """(n, WINDOW, width) as (width, WINDOW, n): the pixels of a window then lie together, without a copy."""
    return rows.permute(2, 1, 0).contiguous()


def _means(strip: Tensor, line: Tensor) -> Tensor:
    """The mean of every window of the strip: (columns, n)."""
    return (line[:, None] * strip).sum(1).unfold(0, WINDOW, 1) @ line


def _spread(strip: Tensor, mean: Tensor, root: Tensor, x: int) -> Tensor:
    """Deviations from the mean in the window at `x`, by the root of its weights: their products are covariances."""
    return (strip[x : x + WINDOW].flatten(0, 1) - mean).mul_(root)


def _gaussian(device: torch.device) -> Tensor:
    offsets = torch.arange(-RADIUS, RADIUS + 1, dtype=torch.float64, device=device)
    weights = (-0.5 * (offsets / SIGMA).square()).exp()
    return weights / weights.sum()


def _band(size: int, device: torch.device) -> Tensor:
    """The filter along one axis as a matrix, for the windows inside the image: (size - 2 RADIUS, size)."""
    band = torch.zeros(size - 2 * RADIUS, size, dtype=torch.float64, device=device)
    for i, row in enumerate(band):
        row[i : i + WINDOW] = _gaussian(device)
    return band


def _block_side(memory: int, threads: int, width: int, itemsize: int) -> int:
    """The most images on either side of a block such that one block a thread fits into the memory."""
    # By pair: total, row, numerator, denominator and one factor, twice, for the allocator keeps about as much again.
    # By image of either side: its strip, the same weighted, the means; this window's spread, the last's and a square.
    by_pair, by_image = 10 * itemsize, 2 * itemsize * WINDOW * (3 * width + 4 * WINDOW)
    least = threads * (by_pair + by_image)
    if memory < least:
        raise Misconfigured(
            f"memory = {memory} bytes is too little for a pair of images {width} px wide on each of {threads} threads; "
            f"give at least {least}."
        )
    # by_pair side^2 + by_image side = memory of one thread
    return max(1, int((math.sqrt(by_image**2 + 4 * by_pair * memory / threads) - by_image) / (2 * by_pair)))


def _comparable(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the wider of their types, at least float32, after a look at what they are."""
    for images in (a, b):
        if images.ndim != 4 or not images.is_floating_point():
            raise BadInput(
                f"images must be floats of shape (n, channels, height, width), not {images.dtype} of shape "
                f"{tuple(images.shape)}; scale integers to [0, 1], and add a first axis to a single image."
            )
    if a.shape[1:] != b.shape[1:]:
        raise BadInput(
            f"images of {tuple(a.shape[1:])} and {tuple(b.shape[1:])} (channels, height, width) cannot be compared; "
            "bring them to one size and one number of channels."
        )
    dtype = torch.promote_types(torch.promote_types(a.dtype, b.dtype), torch.float32)
    return a.to(dtype), b.to(dtype)


def _partners(a: Tensor, b: Tensor) -> None:
    if len(a) != len(b):
        raise BadInput(f"{len(a)} images have no partners among {len(b)}; compare all pairs with a matrix instead.")


def _fits_a_window(images: Tensor) -> None:
    height, width = images.shape[-2:]
    if min(height, width) < WINDOW:
        raise BadInput(
            f"SSIM needs images of at least {WINDOW} x {WINDOW} pixels, one window, not {height} x {width}; "
            "resize them, or score by MSE or PSNR."
        )

"""SSIM of all pairs against scikit-image's pair by pair: 1000 x 1360 at 64 px, `python -m benchmarks similarity`.

The loop would take minutes, so it is timed on some of the pairs and its time scaled. It runs in turns before and after
the matrix, so that a noisy neighbour disturbs both alike.
"""

import time

import torch
from skimage.metrics import structural_similarity
from torch import Tensor

from fluoroscope.data.phantoms import CHEST, phantoms
from fluoroscope.data.sources import Request
from fluoroscope.scores.similarity import ssim_matrix

RECONSTRUCTIONS, ORIGINALS, SAMPLED, REPETITIONS = 1000, 1360, 3000, 3


def loop(a: Tensor, b: Tensor) -> list[float]:
    settings = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "data_range": 1}
    pairs = zip(a.numpy(), b.numpy(), strict=True)
    return [float(structural_similarity(x, y, channel_axis=0, **settings)) for x, y in pairs]


def main() -> None:
    images = phantoms(CHEST, range(RECONSTRUCTIONS + ORIGINALS), Request(size=64)).batch.images
    a, b = images[:RECONSTRUCTIONS], images[RECONSTRUCTIONS:]
    rng = torch.Generator().manual_seed(0)
    i, j = (torch.randint(n, (SAMPLED,), generator=rng) for n in (RECONSTRUCTIONS, ORIGINALS))
    pairs = RECONSTRUCTIONS * ORIGINALS
    ssim_matrix(a[:64], b[:64])  # warms up
    ours, theirs = [], []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        loop(a[i], b[j])
        theirs.append((time.perf_counter() - start) * pairs / SAMPLED)
        start = time.perf_counter()
        matrix = ssim_matrix(a, b)
        ours.append(time.perf_counter() - start)
        print(f"all pairs {ours[-1]:.1f} s; scikit-image {theirs[-1]:.0f} s, scaled from {SAMPLED} pairs", flush=True)
    exact = torch.tensor(loop(a[i].double(), b[j].double()), dtype=torch.float64)
    deviation = float((matrix[i, j] - exact).abs().max())
    print(
        f"{RECONSTRUCTIONS} x {ORIGINALS} pairs at 64 px: {min(theirs) / min(ours):.0f} times as fast as the loop "
        f"(bar 10), {pairs / min(ours):.0f} pairs/s; largest deviation from scikit-image in float64 {deviation:.1e} "
        f"(bar 1e-5) over {SAMPLED} pairs"
    )


if __name__ == "__main__":
    main()

"""What IIP can see: spoilt X-rays are looked up among those of other patients (docs/measured.md)."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from fluoroscope.data import Request, load
from fluoroscope.models.embedder import ImageNetEmbedder
from fluoroscope.scores.identifiability import identify
from fluoroscope.scores.similarity import ssim
from tests.data.test_sources import SHARED, needs_shared

VICTIMS = 60


def blurred(images: torch.Tensor, sigma: float) -> torch.Tensor:
    reach = int(3 * sigma + 1)
    kernel = torch.exp(-(torch.arange(-reach, reach + 1).float() ** 2) / (2 * sigma**2 + 1e-9))
    kernel /= kernel.sum()
    wide = F.pad(images, (reach,) * 4, mode="reflect")
    return F.conv2d(F.conv2d(wide, kernel[None, None, :, None]), kernel[None, None, None])


def spoilt(images: torch.Tensor, how: Callable[[float], torch.Tensor], likeness: float = 0.78) -> torch.Tensor:
    """As strongly as leaves this mean SSIM, by bisection."""
    low, high = 0.0, 4.0
    for _ in range(18):
        middle = (low + high) / 2
        low, high = (middle, high) if ssim(images, how(middle)).mean() > likeness else (low, middle)
    return how(low).clamp(0, 1)


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("cxr-nih-64", 0.85), ("cxr-covid-224", 0.92)])
def test_spoilt_x_rays_point_to_their_patient(name, least):
    batch = load(str(SHARED / name), Request(size=64)).batch
    first = {patient: i for i, patient in reversed(list(enumerate(batch.patients)))}
    pool = batch.images[sorted(first.values())[:400]]
    own = pool[:VICTIMS]
    noise = torch.randn(own.shape, generator=torch.Generator().manual_seed(0))
    smooth = 6 * blurred(torch.randn(own.shape, generator=torch.Generator().manual_seed(1)), 2.0)
    ways = {
        "blur": lambda m: blurred(own, m),
        "noise": lambda m: (own + 0.2 * m * noise).clamp(0, 1),
        "both": lambda m: (blurred(own, 0.4 * m + 0.01) + 0.05 * m * noise).clamp(0, 1),
        "faded": lambda m: own * (1 - m / 4) + own.mean(0) * m / 4,
        "smooth noise": lambda m: (own + 0.05 * m * smooth).clamp(0, 1),
    }
    embed = ImageNetEmbedder(size=64)
    known = embed(pool)
    centre, member = known.mean(0), torch.arange(len(pool)) < VICTIMS
    shares = {}
    for way, how in ways.items():
        found = identify(embed(spoilt(own, how)) - centre, known - centre, member)
        shares[way] = float((found.nearest[:, 0] == torch.arange(VICTIMS)).float().mean())
    print(name, {way: round(share, 2) for way, share in shares.items()})
    assert sum(shares.values()) / len(shares) > least

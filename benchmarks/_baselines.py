"""Published detectors beside the guard.

D-SNR (Garov et al. 2024, arXiv 2306.03013) as its paper has it: for every layer, the largest gradient of one image over
the sum of all others'; a client skips a batch where it is high. Of two later ones only the abstracts could be had, so
what stands here is what those say, with limits of ours: weights of a structure that chance does not give, and a loss
and gradient that leave their course (Carletti et al. 2025, arXiv 2511.10502); a global model whose update is suspicious
before training begins (Wang and Li 2025, arXiv 2506.20651).
"""

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fluoroscope.defences.guard.losses import losses

PARALLEL, PAIRS = 0.99, 0.05
"""Cosine of two rows of a layer, and share of its pairs: neither chance nor training makes so many."""
ONE_SIDED, FEWEST_UNITS = 4.0, 32
"""Deviations of a fair coin by which the signs of a layer's biases may differ; in layers of so many units."""
OFF_COURSE = 10.0
"""Times the agreed model's loss or gradient, either way."""
MOVED = 10.0
"""Times the median array's relative change, that one array changed."""


def d_snr(model: nn.Module, images: Tensor, most: int = 16) -> float:
    """The largest over layers of weights and images; each image's gradient is taken alone."""
    model = copy.deepcopy(model).float().eval().requires_grad_(True)
    weights = [p for p in model.parameters() if p.ndim >= 2]
    sizes = []
    rng = torch.Generator().manual_seed(0)
    try:
        for image in images[:most]:
            each = losses(model(image[None]), 1, rng)
            found = torch.autograd.grad(each.sum(), weights, allow_unused=True)
            sizes.append([0.0 if g is None else float(g.norm()) for g in found])
    except Exception:  # networks that do not take one image
        return 0.0
    norms = torch.tensor(sizes)
    total = norms.sum(dim=0)
    ratios = norms / (total - norms).clamp_min(1e-30)
    alive = total > 0
    return float(F.relu(ratios[:, alive]).max()) if bool(alive.any()) else 0.0


def improbable(model: nn.Module) -> bool:
    """Rows that are parallel, or biases of one sign, beyond what chance and training give."""
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if not isinstance(weight, Tensor) or weight.ndim < 2 or len(weight) < FEWEST_UNITS:
            continue
        rows = F.normalize(weight.detach().float().flatten(1)[:1024], dim=1)
        alike = (rows @ rows.T).abs().fill_diagonal_(0) > PARALLEL
        bias = getattr(module, "bias", None)
        signs = bias.detach().sign().sum().abs() if isinstance(bias, Tensor) else torch.zeros(())
        if _share(alike) > PAIRS or float(signs) > ONE_SIDED * math.sqrt(len(weight)):
            return True
    return False


def _share(alike: Tensor) -> float:
    """Share of the pairs."""
    return float(alike.double().sum()) / max(len(alike) * (len(alike) - 1), 1)


def off_course(model: nn.Module, agreed: nn.Module, images: Tensor) -> bool:
    """A loss or a gradient on the client's own batch far from the agreed model's."""
    now, then = _course(model, images), _course(agreed, images)
    return any(
        max(a, b) > OFF_COURSE * max(min(a, b), 1e-30) or not math.isfinite(a) for a, b in zip(now, then, strict=True)
    )


def _course(model: nn.Module, images: Tensor) -> tuple[float, float]:
    model = copy.deepcopy(model).float().train().requires_grad_(True)
    try:
        each = losses(model(images), len(images), torch.Generator().manual_seed(0))
        found = torch.autograd.grad(each.mean(), list(model.parameters()), allow_unused=True)
    except Exception:  # a model that does not run is not on its course
        return math.inf, math.inf
    return float(each.detach().mean()), math.sqrt(sum(float(g.double().square().sum()) for g in found if g is not None))


def leapt(model: nn.Module, agreed: nn.Module) -> bool:
    """An array that is new, or that moved much further than the others did."""
    now, then = dict(model.named_parameters()), dict(agreed.named_parameters())
    if {name: p.shape for name, p in now.items()} != {name: p.shape for name, p in then.items()}:
        return True
    moved = [float((now[n] - then[n]).detach().norm() / then[n].detach().norm().clamp_min(1e-9)) for n in now]
    usual = sorted(moved)[len(moved) // 2]
    return max(moved) > max(MOVED * usual, 1e-6)

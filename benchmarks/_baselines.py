"""A published detector beside the guard: D-SNR (Garov et al. 2024, arXiv 2306.03013).

For every layer, the largest gradient of one image over the sum of all others'; a client skips a batch where it is high.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fluoroscope.defences.guard.losses import losses


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

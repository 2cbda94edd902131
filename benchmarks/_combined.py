"""Models that leak in combinations of rows that only the server knows: gates deep inside, read at the first layer.

After SEER (Garov et al. 2024, arXiv 2306.03013), which trains such a combination for images of a rare property; here
it is laid out, and trained further. The combination lives on units that fire for all images, and the weights behind
them have none of it but for the gates. No row of the first layer and no difference of two shows an image.
"""

import copy
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks._adaptive import CLASSES, Activated, Adaptive, Gradient, Recover

FEW = 16
"""Images per batch, of which the gates take one each."""


def combined(images: Tensor, labels: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """Gates for one image of 64 and of 16, few and many, from fresh and from trained weights, at two depths."""
    for gates, rate in ((8, 1 / 16), (16, 1 / 16), (16, 1 / 64), (32, 1 / 64)):
        for bend in (F.relu, F.gelu):
            yield _crafted(f"combined/{gates} gates of {1 / rate:.0f}", _host(images, bend), images, gates, rate, rng)
    trained = _trained(_host(images, F.relu), images, labels, 10, rng)
    for gates, rate in ((8, 1 / 16), (32, 1 / 64)):
        yield _crafted(f"combined/{gates} gates, from a trained network", trained, images, gates, rate, rng)
        case = _crafted(f"combined/{gates} gates, trained on", trained, images, gates, rate, rng)
        model = _trained(case.model, images, labels, 3, rng, "5")
        yield Adaptive(case.kind, model, case.agreed, case.recover, case.batch, case.honest)


def _host(images: Tensor, bend: Callable[[Tensor], Tensor]) -> nn.Sequential:
    d = images[0].numel()
    return nn.Sequential(
        nn.Flatten(), nn.Linear(d, 256), Activated(bend), nn.Linear(256, 64), Activated(bend), nn.Linear(64, CLASSES)
    )


def _crafted(
    kind: str, agreed: nn.Sequential, images: Tensor, gates: int, rate: float, rng: torch.Generator
) -> Adaptive:
    flat, open_ = images.flatten(1), torch.arange(96)
    model = copy.deepcopy(agreed)
    first, second = model[1], model[3]
    with torch.no_grad():
        sums = flat @ first.weight[open_].T
        first.bias[open_] = 3 * sums.std(dim=0) - sums.amin(dim=0)
        secret = torch.linalg.qr(torch.randn(len(open_), gates, generator=rng))[0]
        second.weight[:, open_] -= (second.weight[:, open_] @ secret) @ secret.T
        seen = model[2](first(flat))
        mean = seen.mean(dim=0)
        for k, unit in enumerate(torch.randperm(len(second.weight), generator=rng)[:gates]):
            w = second.weight[unit] - (second.weight[unit] @ mean) / (mean @ mean) * mean
            w[open_] -= secret @ (secret.T @ w[open_])
            w = w / w.norm() * second.weight.norm(dim=1).mean()
            w[open_] += 0.3 * w.norm() * secret[:, k]
            second.weight[unit], second.bias[unit] = w, -torch.quantile(seen @ w, 1 - rate)
    return Adaptive(kind, model, agreed, mixed(open_, secret), FEW, undone(agreed, flat))


def mixed(units: Tensor, secret: Tensor) -> Recover:
    """Each secret combination (units, gates) of the first layer's rows, over that of the biases."""

    def recover(gradient: Gradient) -> Tensor:
        rows = secret.T.double() @ gradient["1.weight"].double()[units]
        total = secret.T.double() @ gradient["1.bias"].double()[units]
        return torch.where(total.abs()[:, None] > 1e-12, rows / total[:, None], torch.zeros_like(rows))

    return recover


def undone(model: nn.Sequential, flat: Tensor) -> Recover:
    """What the same server reads of an honest network: the second layer's units, its weights inverted."""
    with torch.no_grad():
        open_ = (model[1](flat) > 0).all(dim=0).nonzero().flatten()
        inverse = torch.linalg.pinv(model[3].weight[:, open_].double(), rtol=1e-3)
    return mixed(open_, inverse)


def _trained(
    model: nn.Sequential, images: Tensor, labels: Tensor, epochs: int, rng: torch.Generator, only: str = ""
) -> nn.Sequential:
    made = copy.deepcopy(model)
    stepper = torch.optim.Adam([p for name, p in made.named_parameters() if name.startswith(only)], lr=1e-3)
    for _ in range(epochs):
        for chosen in torch.randperm(len(images), generator=rng).split(16):
            stepper.zero_grad()
            F.cross_entropy(made(images[chosen]), labels[chosen]).backward()
            stepper.step()
    return made

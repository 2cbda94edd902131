"""Models that leak in combinations of rows that only the server knows: gates deep inside, read at the first layer.

After SEER (Garov et al. 2024, arXiv 2306.03013), which trains a network together with its secret reader for a million
steps. Here the start is laid out, and then it is trained: as a federation would, or together with its reader to leak as
much and to differ as little as it can. The combination lives on units that fire for all images, and the weights behind
them have none of it but for the gates. No row of the first layer and no difference of two shows an image.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks._adaptive import CLASSES, Activated, Adaptive, Gradient, Recover, rows

FEW = 16
"""Images per batch, of which the gates take one each."""


def combined(images: Tensor, labels: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """Gates for one image of 64 and of 16, few and many, from fresh and from trained weights, two bends."""
    for gates, rate in ((8, 1 / 16), (16, 1 / 16), (16, 1 / 64), (32, 1 / 64)):
        for bend in (F.relu, F.gelu):
            yield _crafted(f"combined/{gates} gates of {1 / rate:.0f}", _host(images, bend), images, gates, rate, rng)
    trained = _trained(_host(images, F.relu), images, labels, 10, rng)
    for gates, rate in ((8, 1 / 16), (32, 1 / 64)):
        yield _crafted(f"combined/{gates} gates, from a trained network", trained, images, gates, rate, rng)
        case = _crafted(f"combined/{gates} gates, trained on", trained, images, gates, rate, rng)
        model = _trained(case.model, images, labels, 3, rng, "5")
        yield Adaptive(case.kind, model, case.agreed, case.recover, case.batch, case.honest)
        yield _with_its_reader(case, images, labels, rng)


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
    return Adaptive(kind, model, agreed, Mixed(open_, secret), FEW, undone(agreed, flat))


def _with_its_reader(
    case: Adaptive, images: Tensor, labels: Tensor, rng: torch.Generator, steps: int = 150
) -> Adaptive:
    """Trained on what its maker reads of batches, near to the agreed weights; the reader learns, too."""
    model, agreed = copy.deepcopy(case.model), case.agreed
    names = [name for name, _ in model.named_parameters()]
    reader = case.recover
    assert isinstance(reader, Mixed)
    secret = reader.secret.float().clone().requires_grad_()
    stepper = torch.optim.Adam([*model.parameters(), secret], lr=3e-4)
    for _ in range(steps):
        chosen = torch.randperm(len(images), generator=rng)[:FEW]
        loss = F.cross_entropy(model(images[chosen]), labels[chosen])
        found = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        gradient = dict(zip(names, found, strict=True))
        flat = images[chosen].flatten(1)
        read = secret.T @ gradient["1.weight"][reader.units]
        unit = F.normalize(read, dim=1) @ F.normalize(flat, dim=1).T
        apart = [
            (p - q).square().sum() / q.square().sum()
            for p, q in zip(model.parameters(), agreed.parameters(), strict=True)
        ]
        stepper.zero_grad()
        ((1 - unit.abs().amax(dim=1)).mean() + 0.1 * torch.stack(apart).mean()).backward()
        stepper.step()
    kind = case.kind.replace("trained on", "trained with its reader")
    return Adaptive(kind, model, agreed, Mixed(reader.units, secret.detach()), case.batch, case.honest)


@dataclass(frozen=True, eq=False)
class Mixed:
    """Each secret combination (units, gates) of the first layer's rows, over that of the biases; and plain rows."""

    units: Tensor
    secret: Tensor

    def __call__(self, gradient: Gradient) -> Tensor:
        return torch.cat([self.combinations(gradient), rows("1.weight", "1.bias")(gradient)])

    def combinations(self, gradient: Gradient) -> Tensor:
        mixed = self.secret.T.double() @ gradient["1.weight"].double()[self.units]
        total = self.secret.T.double() @ gradient["1.bias"].double()[self.units]
        return torch.where(total.abs()[:, None] > 1e-12, mixed / total[:, None], torch.zeros_like(mixed))


def undone(model: nn.Sequential, flat: Tensor) -> Recover:
    """What the same server reads of an honest network: the second layer's units, its weights inverted, and rows."""
    with torch.no_grad():
        open_ = (model[1](flat) > 0).all(dim=0).nonzero().flatten()
        inverse = torch.linalg.pinv(model[3].weight[:, open_].double(), rtol=1e-3)
    return Mixed(open_, inverse)


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

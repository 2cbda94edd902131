"""Crafted models of a second round, by somebody who has read the guard after it had learnt of the first families.

Their rows are directions in which real images differ little, so that each fires for few whatever their brightness. They
sit in few rows of a layer, behind long linear chains and bends of several steps, in calls that are no product by name;
a gate or a class owns the gradient where no layer shows it by its own weights.
"""

import copy
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks._adaptive import CLASSES, UNITS, Activated, Adaptive, fresh, head, mlp, put, rows
from benchmarks._hosts import Bent

COMPONENTS = 40
"""Of the images, beside the first: brightness says who is bright, and no more."""


def whitened(seen: Tensor, units: int, rate: float, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random directions among the smaller components, each with the bias at which it fires for this share."""
    mean = seen.mean(dim=0)
    _, size, components = torch.linalg.svd(seen - mean, full_matrices=False)
    count = min(COMPONENTS, len(size) - 2)
    basis = components[1 : count + 1] / size[1 : count + 1, None] * len(seen) ** 0.5
    w = torch.randn(units, count, generator=rng) @ basis
    return w, -torch.quantile((seen - mean) @ w.T, 1 - rate, dim=0) - mean @ w.T


def of_one_bias(seen: Tensor, units: int, rate: float, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """The same with rows so long that one bias does for all: there is nothing that could be predicted."""
    w, b = whitened(seen, units, rate, rng)
    reach = -(b + seen.mean(dim=0) @ w.T)
    mean = F.normalize(seen.mean(dim=0), dim=0)
    w = w / reach.clamp_min(1e-6)[:, None] * float(reach.median())
    w = w - (w @ mean)[:, None] * mean
    return w, torch.full((units,), -float(torch.quantile((seen @ w.T).flatten()[:100000], 1 - rate)))


class Called(nn.Module):
    """A dense layer by functions that are no product by name, or that hide what they read."""

    def __init__(self, how: str, d: int) -> None:
        super().__init__()
        self.how, self.bias = how, nn.Parameter(torch.zeros(UNITS))
        self.weight = nn.Parameter(torch.randn(UNITS, d) / d**0.5)

    def forward(self, x: Tensor) -> Tensor:
        x, w = x.flatten(1), self.weight
        if self.how == "detached":
            z = F.linear(x.detach(), w)
        elif self.how == "addbmm":
            z = torch.stack([torch.addbmm(self.bias[None] * 0, one[None, None], w.T[None])[0] for one in x])
        elif self.how == "vmap":
            z = torch.func.vmap(lambda one: w @ one)(x)
        else:
            z = torch.tensordot(x, w, dims=([1], [1]))
        return F.relu(z + self.bias)


class Gate(nn.Module):
    """Pooled features, and one more layer before the head: where it is shut, an image has no gradient."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        convolutions = [nn.Conv2d(channels, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()]
        self.body = nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.gate, self.fc = nn.Linear(32, 32), nn.Linear(32, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.relu(self.gate(self.body(x))))


class TwoBranches(nn.Module):
    """A convolutional network, and a dense layer beside it that speaks softly."""

    def __init__(self, channels: int, d: int) -> None:
        super().__init__()
        self.beside, self.inner, self.fc = Gate(channels), nn.Linear(d, 64), nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.beside(x) + self.fc(F.relu(self.inner(x.flatten(1))))


def further(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """All of them."""
    for family in (_rows, _behind, _calls, _owners):
        yield from family(images, rng)


def _rows(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """In all rows, in few of an agreed layer's, and in layers of few rows."""
    d, flat = images[0].numel(), images.flatten(1)
    for units, rate in ((64, 0.02), (512, 0.05)):
        for kind, made in (("whitened", whitened), ("one bias", of_one_bias)):
            model = mlp(d, units, last=head(units, "own"))
            put(model[1], *made(flat, units, rate, rng))
            yield Adaptive(f"{kind}/{units} rows", model, fresh(model), rows("1.weight", "1.bias"))
    for units, few in ((256, 40), (512, 64), (512, 96), (1024, 200)):
        agreed = mlp(d, units, last=head(units, "own"))
        w, b = whitened(flat, few, 1 / 64, rng)
        size = agreed[1].weight.detach().norm(dim=1).mean() / w.norm(dim=1)
        model, place = copy.deepcopy(agreed), torch.randperm(units, generator=rng)[:few]
        with torch.no_grad():
            model[1].weight[place], model[1].bias[place] = w * size[:, None], b * size
        yield Adaptive(f"few rows/{few} of {units}", model, agreed, rows("1.weight", "1.bias"))
    for units in (12, 20):
        model = mlp(d, units, last=head(units, "own"))
        put(model[1], *of_one_bias(flat, units, 1 / 16, rng))
        yield Adaptive(f"narrow/{units} rows", model, fresh(model), rows("1.weight", "1.bias"), 16)
    branches = TwoBranches(images.shape[1], d)
    put(branches.inner, *whitened(flat, 64, 0.02, rng))
    with torch.no_grad():
        branches.fc.weight.mul_(1e-4)
    yield Adaptive("beside convolutions", branches, fresh(branches), rows("inner.weight", "inner.bias"))


def _behind(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """Mixed, and undone behind a long chain or a bend that bends a little."""
    d, flat = images[0].numel(), images.flatten(1)
    for depth in (4, 9):
        chain = [nn.Linear(UNITS, UNITS) for _ in range(depth)]
        model = nn.Sequential(nn.Flatten(), nn.Linear(d, UNITS), *chain, nn.ReLU(), head(UNITS, "own"))
        whole = torch.eye(UNITS)
        for layer in chain:
            turn = torch.linalg.qr(torch.randn(UNITS, UNITS, generator=rng))[0]
            put(layer, turn, torch.zeros(UNITS))
            whole = turn @ whole
        w, b = of_one_bias(flat, UNITS, 0.02, rng)
        put(model[1], whole.T @ w, whole.T @ b)
        reader = rows("1.weight", "1.bias", mixing=whole.double())
        yield Adaptive(f"chain/{depth} layers", model, fresh(model), reader)
    for name, bend, size in (
        ("softsign", F.softsign, 0.1),
        ("tanh", torch.tanh, 0.6),
        ("leaky", lambda x: F.leaky_relu(x, 0.9), 1.0),
        ("sine", torch.sin, 0.8),
    ):
        yield _bent(name, bend, size, flat, rng)


def _bent(name: str, bend: Callable[[Tensor], Tensor], size: float, flat: Tensor, rng: torch.Generator) -> Adaptive:
    w, b = whitened(flat, UNITS, 0.02, rng)
    mix = torch.linalg.qr(torch.randn(UNITS, UNITS, generator=rng))[0]
    scale = size / float((flat @ (mix @ w).T + mix @ b).abs().max())
    x = torch.linspace(-size / 3, size / 3, 101).requires_grad_()
    slope = float(torch.autograd.grad(bend(x).sum(), x)[0].mean())
    model = Bent(flat.shape[1], bend)
    model.fc = head(UNITS, "own")
    put(model.inner, scale * mix @ w, scale * mix @ b)
    put(model.back, mix.T / scale / slope, torch.zeros(UNITS))
    reader = rows("inner.weight", "inner.bias", mixing=mix.T.double())
    return Adaptive(f"bends a little/{name}", model, fresh(model), reader)


def _calls(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """Other names for a product, and an input that is detached."""
    d, flat = images[0].numel(), images.flatten(1)
    for how in ("detached", "addbmm", "vmap", "tensordot"):
        model = nn.Sequential(Called(how, d), head(UNITS, "own"))
        agreed = copy.deepcopy(model)
        put(model[0], *of_one_bias(flat, UNITS, 0.02, rng))
        yield Adaptive(f"called/{how}", model, agreed, rows("0.weight", "0.bias"))


def _owners(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """A gate of pooled features that few images pass, and a class behind a layer that hides it."""
    for rate in (0.04, 0.06, 0.1):
        for noise in (0.0, 0.1):
            agreed = Gate(images.shape[1])
            model = copy.deepcopy(agreed)
            with torch.no_grad():
                seen = model.body(images)
                main = torch.linalg.svd(seen - seen.mean(dim=0), full_matrices=False)[2][0]
                w = main * (0.5 + torch.rand(32, 1, generator=rng)) * 5 / float((seen @ main).std())
                w = w + noise * w.norm(dim=1, keepdim=True) * torch.randn(32, 32, generator=rng) / 32**0.5
                put(model.gate, w, -torch.quantile(seen @ w.T, 1 - rate, dim=0))
            yield Adaptive(f"gate/{rate:g}", model, agreed)
    for behind in ("linear", "temperature"):
        agreed = nn.Sequential(Gate(images.shape[1]).body, nn.Linear(32, 5))
        agreed.append(nn.Linear(5, 5) if behind == "linear" else Activated(lambda x: 2 * x))
        model = copy.deepcopy(agreed)
        with torch.no_grad():
            model[1].weight[1:] = model[1].weight[1:2] + 1e-3 * torch.randn(4, 32, generator=rng)
            model[1].bias.copy_(torch.tensor([0.0, 12, 12, 12, 12]))
            if behind == "linear":
                put(model[2], torch.eye(5), torch.zeros(5))
        yield Adaptive(f"fishing/behind, {behind}", model, agreed)

"""Models by somebody who has read the guard's source: bins and sparse units in every place that weights can hide in.

Each comes with the attacker's own way to read images out of the gradient, so that it counts only if it really leaks.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks._crafted import Case, quantiles, smooth_direction

Gradient = dict[str, Tensor]
Recover = Callable[[Gradient], Tensor]
UNITS, CLASSES = 192, 4


@dataclass(frozen=True, eq=False)
class Adaptive(Case):
    """A crafted model, and how its maker reads the update: candidates (n, pixels) from the gradient by name."""

    recover: Recover | None = None
    batch: int | None = None
    """Images per batch that it is made for; all at once by default."""
    honest: Recover | None = None
    """How the same server would read the agreed network; by `recover` by default."""


def rows(weight: str, bias: str | None, order: Tensor | None = None, mixing: Tensor | None = None) -> Recover:
    """Every row over its bias's gradient, and every difference of two neighbours in the order of the bins."""

    def recover(gradient: Gradient) -> Tensor:
        g = gradient[weight].flatten(1).double()
        b = gradient[bias].double() if bias is not None else None
        if mixing is not None:
            g, b = mixing @ g, mixing @ b if b is not None else None
        if order is not None:
            g, b = g[order], b[order] if b is not None else None
        both = torch.cat([g, g.diff(dim=0)])
        if b is None:
            return both
        total = torch.cat([b, b.diff(dim=0)])
        return torch.where(total.abs()[:, None] > 1e-12, both / total[:, None], torch.zeros_like(both))

    return recover


def gradients(model: nn.Module, images: Tensor, labels: Tensor) -> Gradient:
    """What a client that takes one step would send."""
    model = copy.deepcopy(model).train()
    model.requires_grad_(True)
    model.zero_grad()
    F.cross_entropy(model(images), labels).backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def recovered(case: Adaptive, images: Tensor, labels: Tensor, psnr: float = 20.0) -> int:
    """How many of the images are among the candidates, each nearest to its own original, up to brightness."""
    if case.recover is None:
        return 0
    found = case.recover(gradients(case.model, images, labels))
    found = found[torch.isfinite(found).all(dim=1) & (found.abs().amax(dim=1) > 0)]
    truth = images.flatten(1).double()
    if len(found) == 0 or found.shape[1] != truth.shape[1]:
        return 0
    scale = (found @ truth.T) / found.square().sum(dim=1, keepdim=True)
    error = truth.square().sum(dim=1)[None] - scale * (found @ truth.T)
    error = error.clamp_min(0) / truth.shape[1]
    nearest = error.argmin(dim=1)
    # Nearer than the mean of the others is: images that are all alike prove nothing.
    mean = (truth - truth.mean(dim=0)).square().mean(dim=1)
    good = (error < 10 ** (-psnr / 10)) & (error < mean[None] / 4)
    good &= F.one_hot(nearest, len(truth)).bool()
    return int(good.any(dim=0).sum())


class Activated(nn.Module):
    """Any function as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def head(units: int, columns: str = "same") -> nn.Linear:
    """A last layer through which all units get the same gradient, or one of their own."""
    layer = nn.Linear(units, CLASSES)
    if columns == "same":
        with torch.no_grad():
            layer.weight.copy_(layer.weight[:, :1].expand_as(layer.weight))
    return layer


def bins(seen: Tensor, units: int, rng: torch.Generator, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """One direction, and a threshold for each unit at a quantile of it."""
    p = smooth_direction(shape, rng) if len(shape) == 3 else torch.randn(seen.shape[1], generator=rng)
    p = p / p.norm()
    return p.repeat(units, 1), -quantiles(seen @ p, units)


def sparse(seen: Tensor, units: int, rate: float, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random directions that know nothing of brightness, and one bias for all, so that each fires for few (QBI)."""
    w = torch.randn(units, seen.shape[1], generator=rng)
    mean = F.normalize(seen.mean(dim=0), dim=0)
    w = w - (w @ mean)[:, None] * mean
    sums = seen @ w.T
    w = w / sums.std(dim=0)[:, None]
    sums = seen @ w.T
    return w, torch.full((units,), -float(torch.quantile(sums.flatten()[:100000], 1 - rate)))


def mlp(d: int, units: int, middle: nn.Module | None = None, last: nn.Module | None = None) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(d, units), middle or nn.ReLU(), last or head(units))


def put(layer: nn.Module, weight: Tensor, bias: Tensor | None) -> None:
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)


def fresh(model: nn.Module) -> nn.Module:
    """The agreed network: the same layers as torch makes them."""
    made = copy.deepcopy(model)
    for module in made.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    for name, value in made.named_parameters():
        owner = made.get_submodule(name.rpartition(".")[0])
        if not hasattr(owner, "reset_parameters"):
            value.data.normal_(0, value[0].numel() ** -0.5 if value.ndim > 1 else 0.02)
    return made


def thresholds(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """Where the thresholds sit: one bias for all, in the weights, in few of many rows, in another layer."""
    shape, d, flat = tuple(images.shape[1:]), images[0].numel(), images.flatten(1)
    for rate in (0.01, 0.02, 0.03):
        for units in (128, 512):
            model = mlp(d, units, last=head(units, "own"))
            put(model[1], *sparse(flat, units, rate, rng))
            yield Adaptive(f"one bias/{rate}", model, fresh(model), rows("1.weight", "1.bias"))
    for noise in (0.0, 0.5):
        model = mlp(d, UNITS)
        w, b = bins(flat, UNITS, rng, shape)
        mean = flat.mean(dim=0)
        w = w + b[:, None] * mean / mean.square().sum()
        w = w + noise * w.norm(dim=1, keepdim=True) / d**0.5 * torch.randn(w.shape, generator=rng)
        put(model[1], w, torch.zeros(UNITS))
        yield Adaptive(
            f"thresholds in weights/{noise}", model, fresh(model), rows("1.weight", "1.bias", (-b).argsort())
        )
    for many in (1024, 4096):
        model = mlp(d, many, last=head(many, "own"))
        honest = fresh(model)
        w, b = honest[1].weight.detach().clone(), honest[1].bias.detach().clone()
        place = torch.randperm(many, generator=rng)[:128]
        w[place], b[place] = bins(flat, 128, rng, shape)
        put(model[1], w, b)
        with torch.no_grad():
            model[3].weight[:, place] = model[3].weight[:, place[:1]]
        yield Adaptive(f"few of many rows/{many}", model, honest, rows("1.weight", "1.bias", place))
    for scale in (False, True):
        for noise in (0.1, 0.5):
            model = mlp(d, UNITS)
            w, b = bins(flat, UNITS, rng, shape)
            s = torch.exp(torch.randn(UNITS, generator=rng)) if scale else torch.ones(UNITS)
            w = w + noise * w.norm(dim=1, keepdim=True) / d**0.5 * torch.randn(w.shape, generator=rng)
            put(model[1], w * s[:, None], b * s)
            yield Adaptive(f"noised bins/{noise}", model, fresh(model), rows("1.weight", "1.bias"))


def deep(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """Behind another layer: an invertible one, a mixing that is undone, a norm, a pooling."""
    shape, d, flat = tuple(images.shape[1:]), images[0].numel(), images.flatten(1)
    q, _ = torch.linalg.qr(torch.randn(d, d, generator=rng))
    for active in (True, False):
        bend: nn.Module = nn.ReLU() if active else nn.Identity()
        model = nn.Sequential(nn.Flatten(), nn.Linear(d, d), bend, nn.Linear(d, UNITS), nn.ReLU(), head(UNITS))
        lift = 2 * float(flat.norm(dim=1).max()) if active else 0.0
        put(model[1], q, torch.full((d,), lift))
        p = F.normalize(smooth_direction(shape, rng), dim=0) @ q.T
        seen = flat @ q.T + lift
        put(model[3], p.repeat(UNITS, 1), -quantiles(seen @ p, UNITS))
        inner = rows("3.weight", "3.bias")

        def back(gradient: Gradient, inner: Recover = inner, lift: float = lift) -> Tensor:
            return (inner(gradient) - lift) @ q.double()

        yield Adaptive(f"second dense layer/{'relu' if active else 'linear'}", model, fresh(model), back)
    for _ in range(2):
        w, b = bins(flat, UNITS, rng, shape)
        m = torch.linalg.qr(torch.randn(UNITS, UNITS, generator=rng))[0]
        model = nn.Sequential(nn.Flatten(), nn.Linear(d, UNITS), nn.Linear(UNITS, UNITS), nn.ReLU(), head(UNITS))
        put(model[1], m @ w, m @ b)
        put(model[2], m.T, torch.zeros(UNITS))
        yield Adaptive("mixed and undone", model, fresh(model), rows("1.weight", "1.bias", mixing=m.T.double()))
    for kind in ("batch", "layer"):
        norm = nn.BatchNorm1d(UNITS) if kind == "batch" else nn.LayerNorm(UNITS)
        model = nn.Sequential(nn.Flatten(), nn.Linear(d, UNITS), norm, nn.ReLU(), head(UNITS, "own"))
        w, _ = sparse(flat, UNITS, 0.02, rng)
        put(model[1], w, torch.zeros(UNITS))
        with torch.no_grad():
            norm.bias.fill_(-2.0)
        mean = flat.mean(dim=0).double()

        def shifted(gradient: Gradient, mean: Tensor = mean, kind: str = kind) -> Tensor:
            g = gradient["1.weight"].double()
            total = gradient["2.bias"].double()[:, None]
            gain = g / torch.where(total.abs() > 1e-12, total, torch.inf)
            return torch.cat([s * gain + m * mean for s in (0.5, 1.0, 2.0) for m in (0.0, 1.0)])

        yield Adaptive(f"shift of a {kind} norm", model, fresh(model), shifted)
    pooled = F.avg_pool2d(images, 2)
    model = nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(pooled[0].numel(), UNITS), nn.ReLU(), head(UNITS))
    put(model[2], *bins(pooled.flatten(1), UNITS, rng, tuple(pooled.shape[1:])))
    inner = rows("2.weight", "2.bias")

    def enlarged(gradient: Gradient) -> Tensor:
        small = inner(gradient).reshape(-1, *pooled.shape[1:])
        return F.interpolate(small, size=shape[1:], mode="bilinear").flatten(1)

    yield Adaptive("a smaller picture", model, fresh(model), enlarged)

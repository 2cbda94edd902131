"""Models that a malicious server would send, for the guard's benchmark: as the papers craft them, and disguised.

Every maker takes a generator and auxiliary images and gives the agreed network and the crafted one.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fluoroscope.models import Architecture

FEATURES = ("brightness", "projection", "ratio", "several", "several-ratio", "rtf", "rtf-sparse", "dead")


@dataclass(frozen=True)
class Disguise:
    """What hides the pattern: an order of the neurons, a scale for each, noise in units of a row's norm."""

    permute: bool = False
    scale: bool = False
    noise: float = 0.0


@dataclass(frozen=True, eq=False)
class Case:
    """One model with what was agreed on."""

    kind: str
    model: nn.Module
    agreed: nn.Module


def smooth_direction(shape: tuple[int, ...], rng: torch.Generator, grid: int = 5) -> Tensor:
    coarse = torch.randn(1, shape[0], min(grid, shape[1]), min(grid, shape[2]), generator=rng)
    return F.interpolate(coarse, size=shape[1:], mode="bicubic", align_corners=True).flatten()


def quantiles(values: Tensor, k: int) -> Tensor:
    """k levels between the values, with a little jitter so that ties between few images do not fall together."""
    levels = torch.quantile(values, (torch.arange(k) + 0.5) / k)
    return levels + torch.linspace(-1, 1, k) * values.std() * 0.02


def bins(kind: str, shape: tuple[int, ...], k: int, seen: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Weights and biases of k neurons over what they see, (images, values)."""
    d = seen.shape[1]
    if kind in ("brightness", "rtf", "rtf-sparse", "dead"):
        p = torch.full((d,), 1 / d)
        q = quantiles(seen @ p, k)
        w, b = p.repeat(k, 1), -q
        if kind == "dead":
            b = torch.full((k,), -2.0 * float((seen @ p).max()) - 1)
        if kind.startswith("rtf"):
            width = torch.diff(q, append=q[-1:] + (q[-1] - q[-2])).clamp_min(1e-4)
            w, b = w / width[:, None], b / width
        return w, b
    if kind == "projection":
        p = smooth_direction(shape, rng) / d**0.5
        return p.repeat(k, 1), -quantiles(seen @ p, k)
    if kind == "ratio":
        p, e = smooth_direction(shape, rng).abs() / d, torch.full((d,), 1 / d)
        q = quantiles((seen @ p) / (seen @ e).clamp_min(1e-6), k)
        return p - q[:, None] * e, torch.zeros(k)
    parts = [k // 3, k // 3, k - 2 * (k // 3)]
    index = torch.arange(d)
    side = shape[-1]
    lattice = (index // side % 2) * 2 + index % 2
    weights, biases = [], []
    for f, n in enumerate(parts):
        mask = (lattice == f).float()
        p = smooth_direction(shape, rng) * mask / d**0.5
        if kind == "several":
            weights.append(p.repeat(n, 1))
            biases.append(-quantiles(seen @ p, n))
        else:
            p, e = p.abs(), mask / d**0.5
            q = quantiles((seen @ p) / (seen @ e).clamp_min(1e-6), n)
            weights.append(p - q[:, None] * e)
            biases.append(torch.zeros(n))
    return torch.cat(weights), torch.cat(biases)


def disguised(w: Tensor, b: Tensor, how: Disguise, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    k = len(w)
    if how.permute:
        order = torch.randperm(k, generator=rng)
        w, b = w[order], b[order]
    if how.scale:
        s = torch.exp(torch.randn(k, generator=rng))
        w, b = w * s[:, None], b * s
    if how.noise:
        norm = w.norm(dim=1, keepdim=True) / w.shape[1] ** 0.5
        w = w + how.noise * norm * torch.randn(w.shape, generator=rng)
    return w, b


class View(nn.Module):
    """Back to an image."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), *self.shape)


def front(
    kind: str,
    shape: tuple[int, int, int],
    k: int,
    seen: Tensor,
    how: Disguise,
    rng: torch.Generator,
    form: Literal["dense", "gate", "whole-conv", "conv-transposed"] = "dense",
) -> nn.Sequential:
    """Dense layers that give back something of the shape that they read."""
    d = shape[0] * shape[1] * shape[2]
    w, b = disguised(*bins(kind, shape, k, seen, rng), how, rng)
    column = torch.randn(d, 1, generator=rng) / d**0.5
    out = column.repeat(1, k) / k
    act: nn.Module = nn.Hardtanh(0.0, 1.0) if kind == "rtf-sparse" else nn.ReLU()
    if form == "gate":
        layers = [nn.Flatten(), nn.Linear(d, k), act, nn.Linear(k, 1), nn.ReLU(), nn.Linear(1, d), View(*shape)]
        made = nn.Sequential(*layers)
        set_(made[3], torch.ones(1, k) / k, torch.zeros(1))
    elif form == "whole-conv":
        made = nn.Sequential(nn.Conv2d(shape[0], k, shape[1:]), act, nn.Conv2d(k, d, 1), View(*shape))
        set_(made[2], out[:, :, None, None], None)
    elif form == "conv-transposed":
        made = nn.Sequential(nn.Conv2d(shape[0], k, shape[1:]), act, nn.ConvTranspose2d(k, shape[0], shape[1:]))
        set_(made[2], out.T.reshape(k, *shape), None)
    else:
        made = nn.Sequential(nn.Flatten(), nn.Linear(d, k), act, nn.Linear(k, d), View(*shape))
        set_(made[3], out, None)
    first = made[0] if isinstance(made[0], nn.Conv2d) else made[1]
    set_(first, w.view_as(first.weight), b)
    return made


def set_(layer: nn.Module, weight: Tensor, bias: Tensor | None) -> None:
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)


def fronts(aux: dict[tuple[int, int], Tensor], rng: torch.Generator) -> Iterator[Case]:
    """Layers before an agreed network: P2, Robbing the Fed, several features, behind an innocent convolution."""
    names = ("small-cnn", "lenet5", "p3-cnn", "resnet18", "resnet18-gn", "vit-small", "efficientnet-lite0")
    number = 0
    for kind in FEATURES:
        for form in ("dense", "gate", "whole-conv", "conv-transposed"):
            for noise in (0.0, 0.05, 0.1):
                (c, size), images = list(aux.items())[number % len(aux)]
                name = names[number % 3] if number % 8 else names[number // 8 % 7]
                network = Architecture(
                    name, c, 2 + number % 4, size, weights=None if name != "efficientnet-lite0" else "random"
                ).build(number)
                how = Disguise(bool(number % 2), bool(number // 2 % 2), noise)
                k = (48, 96, 200)[number % 3]
                added = front(kind, (c, size, size), k, images.flatten(1), how, rng, form)
                yield Case(f"front/{kind}", nn.Sequential(OrderedDict(front=added, network=network)), network)
                number += 1
        for noise in (0.0, 0.05, 0.1):
            (c, size), images = list(aux.items())[number % len(aux)]
            network = Architecture(names[number % 3], c, 4, size).build(number)
            first: list[nn.Module] = [nn.Conv2d(c, c, 3, padding=1)]
            first += [[], [nn.ReLU()], [nn.BatchNorm2d(c), nn.ReLU()]][number % 3]
            innocent = nn.Sequential(*first)
            with torch.no_grad():
                seen = innocent(images).flatten(1)
            how = Disguise(bool(number % 2), bool(number // 2 % 2), noise)
            added = front(kind, (c, size, size), 96, seen, how, rng)
            yield Case(
                f"behind/{kind}", nn.Sequential(OrderedDict(stem=innocent, front=added, network=network)), network
            )
            number += 1


def mlp(c: int, size: int, k: int, classes: int, seed: int, depth: int = 1) -> nn.Sequential:
    torch.manual_seed(seed)
    hidden = [layer for _ in range(depth) for layer in (nn.Linear(k, k), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), nn.Linear(c * size * size, k), nn.ReLU(), *hidden, nn.Linear(k, classes))

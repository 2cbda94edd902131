"""Crafted weights inside an agreed architecture, for the guard's benchmark."""

import copy
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks._crafted import FEATURES, Case, Disguise, bins, disguised, fronts, mlp, quantiles, set_
from fluoroscope.models import Architecture


def passing(conv: nn.Conv2d) -> None:
    """A kernel that hands a pixel on unchanged (LOKI)."""
    with torch.no_grad():
        conv.weight.zero_()
        for o in range(conv.out_channels):
            conv.weight[o, o % conv.in_channels, conv.kernel_size[0] // 2, conv.kernel_size[1] // 2] = 1
        if conv.bias is not None:
            conv.bias.zero_()


def trap(w: Tensor, rng: torch.Generator, s: float, exact: bool) -> Tensor:
    """Boenisch et al. 2021: half of each row negative, the other half its mirror image, a little smaller."""
    k, d = w.shape
    size = torch.randn(k, d // 2, generator=rng).abs() * w.std()
    other = size if exact else torch.randn(k, d // 2, generator=rng).abs() * w.std()
    row = torch.cat([-size, s * other], dim=1)
    if d % 2:
        row = torch.cat([row, torch.zeros(k, 1)], dim=1)
    return torch.stack([r[torch.randperm(d, generator=rng)] for r in row])


def inside_dense(aux: dict[tuple[int, int], Tensor], rng: torch.Generator) -> Iterator[Case]:
    """Weights of an agreed dense layer: bins, trap weights, tuned biases, silence."""
    number = 0
    hows = [
        Disguise(True, False, 0.0),
        Disguise(True, True, 0.02),
        Disguise(False, True, 0.05),
        Disguise(True, True, 0.1),
    ]
    for host in ("p3-cnn", "p3-cnn-passing", "mlp", "wide-mlp"):
        for kind in (
            *FEATURES,
            "trap-0.9",
            "trap-0.97",
            "trap-iid-0.9",
            "tuned-0.05",
            "tuned-0.02",
            "minus",
            "minus-bias",
            "bias-1000",
        ):
            for how in hows if kind in FEATURES else hows[:2]:
                (c, size), images = list(aux.items())[number % len(aux)]
                number += 1
                agreed = (
                    Architecture("p3-cnn", c, 4, size).build(number)
                    if host.startswith("p3")
                    else mlp(c, size, 64 if host == "mlp" else 256, 3, number, number % 2)
                )
                model = copy.deepcopy(agreed)
                if host.startswith("p3"):
                    if host.endswith("passing"):
                        for module in model.body:
                            if isinstance(module, nn.Conv2d):
                                passing(module)
                    with torch.no_grad():
                        feature_map = model.body(images)
                    shape, seen, layer = tuple(feature_map.shape[1:]), feature_map.flatten(1), model.dense[0]
                else:
                    shape, seen, layer = (c, size, size), images.flatten(1), model[1]
                craft_dense(kind, shape, seen, layer, how, rng)
                after = model.dense[3] if host.startswith("p3") else model[3]
                if kind in FEATURES and isinstance(after, nn.Linear) and number % 2:  # identical columns, P2
                    with torch.no_grad():
                        after.weight.copy_(after.weight[:, :1].expand_as(after.weight))
                yield Case(f"{host}/{kind}", model, agreed)


def craft_dense(
    kind: str, shape: tuple[int, ...], seen: Tensor, layer: nn.Linear, how: Disguise, rng: torch.Generator
) -> None:
    k = len(layer.weight)
    with torch.no_grad():
        if kind in FEATURES:
            set_(layer, *disguised(*bins(kind, shape, k, seen, rng), how, rng))
        elif kind.startswith("trap"):
            w = trap(layer.weight, rng, float(kind.split("-")[-1]), "iid" not in kind)
            set_(layer, *disguised(w, torch.zeros(k), how, rng))
        elif kind.startswith("tuned"):  # QBI: a unit fires for this share of images
            rate = float(kind.split("-")[1])
            w, _ = disguised(layer.weight, torch.zeros(k), how, rng)
            set_(layer, w, -torch.quantile(seen @ w.T, 1 - rate, dim=0))
        elif kind == "minus":
            set_(layer, -layer.weight.abs(), torch.zeros(k))
        elif kind == "minus-bias":
            layer.bias.fill_(-3 * float((seen @ layer.weight.T).abs().max()))
        elif kind == "bias-1000":
            layer.bias.fill_(-1000.0)


def inside_others(aux: dict[tuple[int, int], Tensor], rng: torch.Generator) -> Iterator[Case]:
    """Patch embeddings, tokens, classifiers, BatchNorm, scale."""
    number = 0
    for kind in ("brightness", "projection", "several", "ratio", "rtf"):
        for how in (Disguise(True), Disguise(True, True, 0.02), Disguise(True, True, 0.1)):
            (c, size), images = list(aux.items())[number % len(aux)]
            number += 1
            agreed = Architecture("vit-small", c, 3, size).build(number)
            model = copy.deepcopy(agreed)
            patch = model.patches.kernel_size[0]
            pad = model.padding[0] if isinstance(model.padding, tuple) else model.padding
            framed = F.pad(images, (pad // 2, pad - pad // 2) * 2)
            seen = F.unfold(framed, patch, stride=patch).transpose(1, 2).reshape(-1, c * patch * patch)
            w, b = disguised(*bins(kind, (c, patch, patch), 192, seen, rng), how, rng)
            set_(model.patches, w.view_as(model.patches.weight), b)
            yield Case(f"vit-patches/{kind}", model, agreed)
    for kind in ("brightness", "projection"):
        for how in (Disguise(True), Disguise(True, True, 0.02), Disguise(True, True, 0.1)):
            (c, size), images = list(aux.items())[number % len(aux)]
            number += 1
            agreed = Architecture("vit-small", c, 3, size).build(number)
            model = copy.deepcopy(agreed)
            seen = []
            handle = model.blocks[0].mlp[0].register_forward_pre_hook(lambda m, x, seen=seen: seen.append(x[0]))
            with torch.no_grad():
                model(images)
            handle.remove()
            rows = seen[0].reshape(-1, 192)
            p = torch.randn(192, generator=rng) / 192**0.5
            w, b = disguised(p.repeat(768, 1), -quantiles(rows @ p, 768), how, rng)
            set_(model.blocks[0].mlp[0], w, b)
            yield Case(f"vit-tokens/{kind}", model, agreed)
    for name in ("small-cnn", "lenet5", "p3-cnn", "resnet18", "resnet18-gn", "vit-small"):
        for kind in ("class", "class-ones", "feature", "zero-but-one"):
            for noise in (0.0, 0.02):
                (c, size), _ = list(aux.items())[number % len(aux)]
                number += 1
                classes = (3, 10, 4)[number % 3]
                agreed = Architecture(name, c, classes, size).build(number)
                model = copy.deepcopy(agreed)
                fish(model.fc, kind, noise, rng)
                yield Case(f"fishing/{kind}", model, agreed)
    for name in ("small-cnn", "resnet18", "resnet18-gn", "p3-cnn", "lenet5", "vit-small"):
        for kind in ("silent", "scale"):
            (c, size), _ = list(aux.items())[number % len(aux)]
            number += 1
            agreed = Architecture(name, c, 4, size).build(number)
            model = copy.deepcopy(agreed)
            if silence(model, kind):
                yield Case(f"inside/{kind}", model, agreed)
    for number in range(8):
        (c, size), images = list(aux.items())[number % len(aux)]
        agreed = Architecture("lenet5", c, 16 + 20 * number, size).build(number)
        model = copy.deepcopy(agreed)
        if number % 2:
            for module in model.body:
                if isinstance(module, nn.Conv2d):
                    passing(module)
        with torch.no_grad():
            fm = model.body(images)
        how = Disguise(True, number % 3 == 0, (0.0, 0.05)[number // 2 % 2])
        craft_dense(("brightness", "projection")[number // 4], tuple(fm.shape[1:]), fm.flatten(1), model.fc, how, rng)
        yield Case("lenet5/bins", model, agreed)


def fish(layer: nn.Linear, kind: str, noise: float, rng: torch.Generator) -> None:
    """Wen et al. 2022: a classifier for which one class, or one side of a feature, has all the gradient."""
    w, b = layer.weight.detach().clone(), layer.bias.detach().clone()
    rest = torch.arange(len(w)) != 1
    if kind == "class":
        w[rest], b[rest] = 0.0, 1000.0
    elif kind == "class-ones":
        w[rest], b[rest] = 0.5, 1000.0
    elif kind == "feature":
        w.zero_()
        b.zero_()
        w[1, 3], b[1] = 300.0, -300.0
    else:
        w[rest] = 0.0
        w[1] *= 100
    w = w + noise * w.norm(dim=1, keepdim=True) / w.shape[1] ** 0.5 * torch.randn(w.shape, generator=rng)
    set_(layer, w, b)


def silence(model: nn.Module, kind: str) -> bool:
    """A layer that nothing passes (the victim is another client), or one path that drowns all others."""
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d | nn.GroupNorm)]
    dense = [m for m in model.modules() if isinstance(m, nn.Linear)]
    with torch.no_grad():
        if kind == "silent":
            if norms:
                norms[0].weight.mul_(0.01)
                norms[0].bias.fill_(-50.0)
            elif len(dense) > 1:
                dense[-2].bias.fill_(-1e4)
            else:
                return False
            return True
        dense[0].weight[len(dense[0].weight) // 2] *= 1e4
    return True


def crafted(aux: dict[tuple[int, int], Tensor], seed: int = 0) -> Iterator[Case]:
    """All of them."""
    rng = torch.Generator().manual_seed(seed)
    for family in (fronts, inside_dense, inside_others):
        yield from family(aux, rng)

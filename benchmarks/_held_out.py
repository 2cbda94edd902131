"""Families of crafted models that were put aside while the guard's limits were first set; later changes knew them."""

import copy
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks._adaptive import CLASSES, UNITS, Activated, Adaptive, bins, fresh, head, mlp, put, rows, sparse
from fluoroscope.models import Architecture


class Residual(nn.Module):
    """The picture goes round the crafted layer as well."""

    def __init__(self, d: int, units: int) -> None:
        super().__init__()
        self.inner, self.back, self.fc = nn.Linear(d, units), nn.Linear(units, d), nn.Linear(d, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.fc(x + self.back(F.relu(self.inner(x))))


class Gated(nn.Module):
    """A gate per unit, from weights of its own."""

    def __init__(self, d: int, units: int) -> None:
        super().__init__()
        self.value, self.gate, self.fc = nn.Linear(d, units), nn.Linear(d, units), nn.Linear(units, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.fc(self.value(x) * torch.sigmoid(self.gate(x)))


class Halves(nn.Module):
    """Two layers read half a picture each; a third adds them up."""

    def __init__(self, d: int, units: int) -> None:
        super().__init__()
        self.half = d // 2
        self.a, self.b, self.fc = nn.Linear(d // 2, units), nn.Linear(d - d // 2, units), nn.Linear(units, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.fc(F.relu(self.a(x[:, : self.half]) + self.b(x[:, self.half :])))


def held_out(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """Residual paths, gates, halves, patches, whole kernels, trained to leak, absolute values, convolutional hosts."""
    shape, d, flat = tuple(images.shape[1:]), images[0].numel(), images.flatten(1)
    for kind in ("bins", "sparse"):
        made = bins(flat, UNITS, rng, shape) if kind == "bins" else sparse(flat, UNITS, 0.02, rng)
        model: nn.Module = Residual(d, UNITS)
        put(model.inner, *made)
        if kind == "bins":
            with torch.no_grad():
                model.back.weight.copy_(model.back.weight[:, :1].expand_as(model.back.weight))
        yield Adaptive(f"residual/{kind}", model, fresh(model), rows("inner.weight", "inner.bias"))
        model = Halves(d, UNITS)
        half = d // 2
        put(model.a, made[0][:, :half], made[1])
        put(model.b, made[0][:, half:], torch.zeros(UNITS))
        if kind == "bins":
            with torch.no_grad():
                model.fc.weight.copy_(model.fc.weight[:, :1].expand_as(model.fc.weight))

        def joined(gradient: dict[str, Tensor]) -> Tensor:
            whole = torch.cat([gradient["a.weight"], gradient["b.weight"]], dim=1)
            return rows("w", "b")({"w": whole, "b": gradient["a.bias"]})

        yield Adaptive(f"halves/{kind}", model, fresh(model), joined)
    model = Gated(d, UNITS)
    w, b = sparse(flat, UNITS, 0.02, rng)
    put(model.gate, 12 * w, 12 * b)
    with torch.no_grad():
        model.value.weight.mul_(0.01)
        model.value.bias.fill_(1.0)
    yield Adaptive("gated", model, fresh(model), rows("gate.weight", "gate.bias"))
    for name, function in (
        ("abs", torch.abs),
        ("exp", lambda x: torch.exp(-(x**2))),
        ("threshold", lambda x: F.threshold(x, 0.2, 0.0)),
    ):
        model = mlp(d, UNITS, Activated(function), head(UNITS, "own"))
        w, b = sparse(flat, UNITS, 0.02, rng)
        put(model[1], w if name != "exp" else 6 * w, b if name != "exp" else 6 * b)
        yield Adaptive(f"bend/{name}", model, fresh(model), rows("1.weight", "1.bias"))
    side = shape[1]
    model = nn.Sequential(nn.Conv2d(shape[0], UNITS, side), nn.ReLU(), nn.Flatten(), head(UNITS, "own"))
    w, b = sparse(flat, UNITS, 0.02, rng)
    put(model[0], w.view_as(model[0].weight), b)
    yield Adaptive("whole kernel/sparse", model, fresh(model), rows("0.weight", "0.bias"))
    patch = side // 2
    model = nn.Sequential(
        nn.Conv2d(shape[0], UNITS, patch, stride=patch), nn.ReLU(), nn.Flatten(), nn.Linear(4 * UNITS, CLASSES)
    )
    pieces = F.unfold(images, patch, stride=patch).transpose(1, 2).reshape(-1, shape[0] * patch * patch)
    w, b = sparse(pieces, UNITS, 0.005, rng)
    put(model[0], w.view_as(model[0].weight), b)
    yield Adaptive("patches/sparse", model, fresh(model))
    for _ in range(2):
        model = mlp(d, UNITS, last=head(UNITS, "own"))
        honest = fresh(model)
        train_to_leak(model, flat, rng)
        yield Adaptive("trained to leak", model, honest, rows("1.weight", "1.bias"))
    agreed = Architecture("p3-cnn", shape[0], CLASSES, side).build()
    model = copy.deepcopy(agreed)
    with torch.no_grad():
        seen = model.body(images).flatten(1)
    put(model.dense[0], *sparse(seen, len(model.dense[0].weight), 0.02, rng))
    yield Adaptive("features/sparse", model, agreed)
    basis = torch.linalg.svd(flat - flat.mean(dim=0), full_matrices=False)[2][:128]
    both = torch.cat([basis, -basis])
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(d, len(both)), nn.ReLU(), nn.Linear(len(both), UNITS), nn.ReLU(), head(UNITS, "own")
    )
    put(model[1], both, torch.zeros(len(both)))
    code = F.relu(flat @ both.T)
    put(model[3], *sparse(code, UNITS, 0.02, rng))

    def decoded(gradient: dict[str, Tensor]) -> Tensor:
        return rows("3.weight", "3.bias")(gradient) @ both.double()

    yield Adaptive("a code of the picture", model, fresh(model), decoded)


def train_to_leak(model: nn.Sequential, flat: Tensor, rng: torch.Generator, steps: int = 200) -> None:
    """Descend on what the attacker wants: every unit open for one image of a batch, closed for all others (SEER)."""
    layer = model[1]
    with torch.no_grad():  # a start at which units differ by more than brightness
        sums = flat @ layer.weight.T
        layer.weight.div_(sums.std(dim=0)[:, None])
        layer.bias.copy_(-torch.quantile(flat @ layer.weight.T, 0.8, dim=0))
    stepper = torch.optim.Adam(layer.parameters(), lr=2e-3)
    for _ in range(steps):
        chosen = flat[torch.randperm(len(flat), generator=rng)[:32]]
        sums = layer(chosen)
        soft = torch.sigmoid(4 * sums)
        alone = (soft / soft.sum(dim=0).clamp_min(1e-6)).square().sum(dim=0).mean()
        asleep = F.relu(0.5 - sums.amax(dim=0)).mean()
        stepper.zero_grad()
        (asleep - alone).backward()
        stepper.step()

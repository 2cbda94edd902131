"""Crafted models that hide their rows by what stands beside them: noise, constants, loud rows, other uses and places.

A third round, by somebody who has read the guard: what the guard takes a layer for (dead, no picture in it, sliding,
used once, heard) is made untrue by features, rows and places that the server ignores.
"""

import copy
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks._adaptive import CLASSES, UNITS, Adaptive, Gradient, Recover, fresh, head, mlp, put, rows
from benchmarks._further import of_one_bias
from benchmarks._projected import beyond_head


class Channels(nn.Module):
    """A convolution, and a dense layer on all of its channels."""

    def __init__(self, channels: int, side: int, made: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, made, 3, padding=1)
        self.inner, self.fc = nn.Linear(made * side * side, UNITS), nn.Linear(UNITS, CLASSES)

    def seen(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(x))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.relu(self.inner(self.seen(x).flatten(1))))


class Past(nn.Module):
    """A layer that goes on behind a bend and past it."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.inner, self.bend, self.fc = nn.Linear(d, UNITS), nn.LeakyReLU(0.2), nn.Linear(2 * UNITS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        z = self.inner(x.flatten(1))
        return self.fc(torch.cat([z, self.bend(z)], dim=1))


class Mixed(nn.Module):
    """Weights that are mixed for each image, out of four (dynamic convolutions, merged experts)."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.router, self.fc = nn.Linear(d, 4), nn.Linear(UNITS, CLASSES)
        self.experts = nn.Parameter(torch.randn(4, UNITS, d) / d**0.5)
        self.biases = nn.Parameter(torch.zeros(4, UNITS))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        share = self.router(x).softmax(dim=1)
        weight = torch.einsum("ne,eud->nud", share, self.experts)
        return self.fc(F.relu((weight @ x[:, :, None])[:, :, 0] + share @ self.biases))


class Twice(nn.Module):
    """One set of weights with two biases."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.inner, self.fc = nn.Linear(d, UNITS, bias=False), nn.Linear(2 * UNITS, CLASSES)
        self.low, self.high = nn.Parameter(torch.zeros(UNITS)), nn.Parameter(torch.zeros(UNITS))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.fc(F.relu(torch.cat([self.inner(x) + self.low, self.inner(x) + self.high], dim=1)))


class Reaching(nn.Module):
    """A kernel as large as a small map, with the usual padding."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 4, 2, 2), nn.Conv2d(4, 17, 2, 2)
        self.large, self.fc = nn.Conv2d(17, UNITS, 7, padding=3), nn.Linear(UNITS, CLASSES)

    def seen(self, x: Tensor) -> Tensor:
        return F.relu(self.b(F.relu(self.a(x))))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.relu(self.large(self.seen(x))).mean(dim=(2, 3)))


def beside(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """All of them."""
    d, flat = images[0].numel(), images.flatten(1)
    yield from _channels(images, rng)
    for units, few in ((192, 96), (512, 256)):
        agreed = mlp(d, units, last=head(units, "own"))
        model, place = copy.deepcopy(agreed), torch.randperm(units, generator=rng)[:few]
        w, b = of_one_bias(flat, few, 0.02, rng)
        whisper = 1e-22 / w.norm(dim=1)
        with torch.no_grad():
            model[1].weight[place], model[1].bias[place] = w * whisper[:, None], b * whisper
            model[3].weight[:, place] *= 1e-22
        yield Adaptive(f"whispering/{few} of {units}", model, agreed, _heard("1.weight", "1.bias"))
    past = Past(d)
    put(past.inner, *of_one_bias(flat, UNITS, 0.02, rng))
    agreed = fresh(past)
    yield Adaptive("past a bend", past, agreed, _both(past), honest=_both(agreed))
    mixed = Mixed(d)
    agreed = copy.deepcopy(mixed)
    with torch.no_grad():
        mixed.router.weight.mul_(30)
        for expert in range(4):
            mixed.experts[expert], mixed.biases[expert] = of_one_bias(flat, UNITS, 0.02, rng)
    yield Adaptive("mixed per image", mixed, agreed, _of_experts)
    twice = Twice(d)
    agreed = copy.deepcopy(twice)
    with torch.no_grad():
        w, b = of_one_bias(flat, UNITS, 0.02, rng)
        twice.inner.weight.copy_(w)
        twice.low.copy_(b)
        twice.high.copy_(b + 0.3 * (flat @ w.T).std())
        twice.fc.weight[:, UNITS:] = -twice.fc.weight[:, :UNITS]
    yield Adaptive("used twice", twice, agreed, rows("inner.weight", None))
    if images.shape[1:] == (1, 28, 28):
        yield _reaching(images, rng)


def _channels(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """The picture in its own channels, and noise or a loud constant in others."""
    channels, side = images.shape[1], images.shape[2]
    checks = torch.tensor([[1.0, -2, 1], [-2, 4, -2], [1, -2, 1]])
    for kind, made in (("noise", 8), ("noise", 16), ("constant", 8)):
        agreed = Channels(channels, side, channels + made)
        model = copy.deepcopy(agreed)
        with torch.no_grad():
            model.conv.weight.zero_()
            model.conv.bias.zero_()
            for i in range(channels):
                model.conv.weight[i, i, 1, 1] = 1
            if kind == "noise":
                model.conv.weight[channels:] = 3 * checks * torch.randn(made, channels, 1, 1, generator=rng)
            else:
                model.conv.bias[channels] = 1e4
            picture = model.seen(images)[:, :channels].flatten(1)
            w, b = of_one_bias(picture, UNITS, 0.02, rng)
            model.inner.weight.zero_()
            model.inner.weight[:, : w.shape[1]] = w
            model.inner.bias.copy_(b)
        pixels = w.shape[1]

        def recover(gradient: Gradient, pixels: int = pixels) -> Tensor:
            return rows("w", "b")({"w": gradient["inner.weight"][:, :pixels], "b": gradient["inner.bias"]})

        yield Adaptive(f"beside {kind}/{made} channels", model, agreed, recover)


def _heard(weight: str, bias: str) -> Recover:
    """Rows brought to one size first: some whisper."""

    def recover(gradient: Gradient) -> Tensor:
        g, b = gradient[weight].double(), gradient[bias].double()
        size = g.abs().amax(dim=1).clamp_min(1e-300)
        return rows("w", "b")({"w": g / size[:, None], "b": b / size})

    return recover


def _both(model: nn.Module) -> Recover:
    """What goes past the bend is known, too."""
    parts = nn.Linear(UNITS, 2 * CLASSES)
    put(parts, torch.cat([model.fc.weight.detach()[:, :UNITS], model.fc.weight.detach()[:, UNITS:]]), None)
    return beyond_head("inner.weight", "inner.bias", parts)


def _of_experts(gradient: Gradient) -> Tensor:
    each = [{"w": gradient["experts"][i], "b": gradient["biases"][i]} for i in range(4)]
    return torch.cat([rows("w", "b")(one) for one in each])


def _reaching(images: Tensor, rng: torch.Generator) -> Adaptive:
    """The picture folded into channels; a constant one, and the border, let only the middle place fire."""
    agreed = Reaching()
    model = copy.deepcopy(agreed)
    with torch.no_grad():
        for layer in (model.a, model.b):
            layer.weight.zero_()
            layer.bias.zero_()
        for i in range(4):
            model.a.weight[i, 0, i // 2, i % 2] = 1
        for i in range(16):
            model.b.weight[i, i % 4, i // 8, i // 4 % 2] = 1
        model.b.bias[16] = 1
        seen = model.seen(images)[:, :16].flatten(1)
        w, b = of_one_bias(seen, UNITS, 0.02, rng)
        large = 3 * float((seen @ w.T).abs().max()) / 7
        model.large.weight[:, :16] = w.view(UNITS, 16, 7, 7)
        model.large.weight[:, 16] = large
        model.large.bias.copy_(b - 49 * large)
        order = model.seen(torch.arange(784.0).view(1, 1, 28, 28))[:, :16].flatten().long().argsort()

    def recover(gradient: Gradient) -> Tensor:
        whole = gradient["large.weight"][:, :16].flatten(1)[:, order]
        return rows("w", "b")({"w": whole, "b": gradient["large.bias"]})

    return Adaptive("reaching kernel", model, agreed, recover)

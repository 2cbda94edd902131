"""Crafted models whose maker takes away what the next layer makes of any image, before he reads single rows.

Behind a leaky rectifier no unit is ever shut, and rows of units that are shut for few images only hold all others; but
what a unit lets through of all images lies in a space that the server knows, since it sent the next layer's weights.
And two kinds that speak through other doors: heads of findings that say never, and norms that stay frozen.
"""

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from benchmarks._adaptive import CLASSES, UNITS, Adaptive, Gradient, Recover, fresh, head, mlp, put, rows
from benchmarks._crafted import Case
from benchmarks._further import of_one_bias, whitened

LEAKY = {
    "leaky .1": nn.LeakyReLU(0.1),
    "leaky .2": nn.LeakyReLU(0.2),
    "leaky .4": nn.LeakyReLU(0.4),
    "prelu": nn.PReLU(),
}


def beyond_head(weight: str, bias: str, last: nn.Linear) -> Recover:
    """Rows as they are, and what they hold beyond the columns of the head."""
    basis = torch.linalg.svd(last.weight.detach().T.double(), full_matrices=False)[0]  # (units, classes)

    def recover(gradient: Gradient) -> Tensor:
        left = {
            name: value - basis @ (basis.T @ value)
            for name, value in ((weight, gradient[weight].double()), (bias, gradient[bias].double()))
        }
        plain = rows(weight, bias)
        return torch.cat([plain(gradient), plain(left)])

    return recover


class Frozen(nn.BatchNorm1d):
    """Norms by what was sent, in training too."""

    def train(self, mode: bool = True) -> "Frozen":
        return super().train(False)


def projected(images: Tensor, rng: torch.Generator) -> Iterator[Case]:
    """All of them."""
    for family in (_leaky, _deep, _frozen, _never):
        yield from family(images, rng)


def _both(kind: str, model: nn.Sequential, agreed: nn.Sequential) -> Adaptive:
    heads = [each[-1] for each in (model, agreed)]
    mine, theirs = (beyond_head("1.weight", "1.bias", last) for last in heads if isinstance(last, nn.Linear))
    return Adaptive(kind, model, agreed, mine, honest=theirs)


def _leaky(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """Units that are loud for few, or shut for few, or moved by their biases alone."""
    d, flat = images[0].numel(), images.flatten(1)
    for name, bend in LEAKY.items():
        for units in (UNITS, 512):
            model = mlp(d, units, copy.deepcopy(bend), head(units, "own"))
            put(model[1], *of_one_bias(flat, units, 0.02, rng))
            yield _both(f"{name}/{units} rows", model, fresh(model))
    for rate in (0.02, 0.04, 0.07):
        model = mlp(d, UNITS, last=head(UNITS, "own"))
        w, b = of_one_bias(flat, UNITS, rate, rng)
        put(model[1], -w, -b)
        yield _both(f"shut for {rate:g}", model, fresh(model))
    for name in ("leaky .2", "prelu"):
        agreed = mlp(d, UNITS, copy.deepcopy(LEAKY[name]), head(UNITS, "own"))
        model = copy.deepcopy(agreed)
        with torch.no_grad():
            model[1].bias.copy_(-torch.quantile(flat @ model[1].weight.T, 0.98, dim=0))
        yield _both(f"biases alone/{name}", model, agreed)


class Spread(nn.Module):
    """Layers beside each other, each with few rows."""

    def __init__(self, d: int, layers: int, units: int) -> None:
        super().__init__()
        self.beside = nn.ModuleList(nn.Linear(d, units) for _ in range(layers))
        self.bend, self.fc = nn.LeakyReLU(0.2), nn.Linear(layers * units, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.fc(torch.cat([self.bend(layer(x)) for layer in self.beside], dim=1))


def _deep(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """The same in many small layers."""
    d, flat = images[0].numel(), images.flatten(1)
    for layers, units in ((12, 32), (24, 16)):
        model = Spread(d, layers, units)
        agreed = fresh(model)
        for layer in model.beside:
            put(layer, *whitened(flat, units, 0.02, rng))

        def spread(net: Spread, layers: int = layers, units: int = units) -> Recover:
            parts = net.fc.weight.detach().split(units, dim=1)
            heads = [nn.Linear(units, CLASSES) for _ in range(layers)]
            for one, part in zip(heads, parts, strict=True):
                put(one, part, None)
            each = [beyond_head(f"beside.{i}.weight", f"beside.{i}.bias", one) for i, one in enumerate(heads)]
            return lambda gradient: torch.cat([recover(gradient) for recover in each])

        yield Adaptive(f"spread/{layers} layers of {units}", model, agreed, spread(model), honest=spread(agreed))


def _frozen(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """Thresholds in the running mean of a norm that stays frozen."""
    d, flat = images[0].numel(), images.flatten(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(d, UNITS), Frozen(UNITS), nn.ReLU(), head(UNITS, "own"))
    agreed = fresh(model)
    w, b = whitened(flat, UNITS, 0.02, rng)
    put(model[1], w, torch.zeros(UNITS))
    with torch.no_grad():
        model[2].running_mean.copy_(-b)
    yield Adaptive("frozen norm", model, agreed, rows("1.weight", "1.bias"))


def _never(images: Tensor, rng: torch.Generator) -> Iterator[Case]:
    """Findings that the head says never to: who has one owns the update."""
    body = [nn.Conv2d(images.shape[1], 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 16)]
    for findings in (1, 14):
        for bias in (-8.5, -12.0, -30.0):
            agreed = nn.Sequential(*copy.deepcopy(body), nn.ReLU(), nn.Linear(16, findings))
            model = copy.deepcopy(agreed)
            with torch.no_grad():
                model[-1].bias.fill_(bias)
            yield Case(f"findings/{findings} of bias {bias:g}", model, agreed)

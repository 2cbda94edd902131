"""Adaptive models that hide in how a layer is called or bent, and heads that fish or fall silent."""

import copy
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks._adaptive import UNITS, Activated, Adaptive, Gradient, bins, fresh, head, mlp, put, rows, sparse


def bends(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """Other functions than a rectifier."""
    shape, d, flat = tuple(images.shape[1:]), images[0].numel(), images.flatten(1)
    w, b = bins(flat, UNITS, rng, shape)
    spread = float((flat @ w[0]).std())
    steep = 40 / spread
    for name, function in (
        ("gelu", F.gelu),
        ("elu", F.elu),
        ("softplus", F.softplus),
        ("silu", F.silu),
        ("clamp", lambda x: x.clamp(0)),
        ("where", lambda x: torch.where(x > 0, x, torch.zeros_like(x))),
        ("maximum", lambda x: torch.maximum(x, torch.zeros_like(x))),
        ("squared", lambda x: F.relu(x) ** 2),
        ("gated", lambda x: x * (x > 0)),
    ):
        model = mlp(d, UNITS, Activated(function))
        put(model[1], w * steep, b * steep)
        yield Adaptive(f"bend/{name}", model, fresh(model), rows("1.weight", "1.bias"))
    width = torch.diff(-b, append=(-b[-1:] + 0.1 * spread)).clamp_min(1e-3 * spread)
    for name, function in (("hardtanh", F.hardtanh), ("relu6", lambda x: F.relu6(6 * x) / 6)):
        model = mlp(d, UNITS, Activated(function), head(UNITS, "own"))
        put(model[1], w / width[:, None], b / width)
        yield Adaptive(f"bend/{name}", model, fresh(model), rows("1.weight", "1.bias"))
    w, b = sparse(flat, UNITS, 0.02, rng)
    for name, function in (("sigmoid", torch.sigmoid), ("gelu", F.gelu), ("softplus", F.softplus)):
        model = mlp(d, UNITS, Activated(function), head(UNITS, "own"))
        put(model[1], 8 * w, 8 * b - (4 if name == "sigmoid" else 0))
        yield Adaptive(f"sparse bend/{name}", model, fresh(model), rows("1.weight", "1.bias"))


class Disguised(nn.Module):
    """The same dense layer, called otherwise."""

    def __init__(self, how: str, d: int, units: int) -> None:
        super().__init__()
        self.how = how
        self.pos_embed_token = nn.Parameter(torch.randn(units, d) / d**0.5)
        self.shift = nn.Parameter(torch.zeros(units))
        if how == "lora":
            self.lora_a = nn.Parameter(torch.zeros(8, d))
            self.lora_b = nn.Parameter(torch.zeros(units, 8))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        w = self.pos_embed_token
        if self.how == "einsum":
            z = torch.einsum("bi,oi->bo", x, w)
        elif self.how == "matmul":
            z = x @ w.T
        elif self.how == "addmm":
            z = torch.addmm(self.shift * 0, x, w.T)
        elif self.how == "sum":
            z = (x[:, None] * w).sum(dim=-1)
        elif self.how == "transposed":
            z = (w @ x.T).T
        elif self.how == "bmm":
            z = torch.bmm(x[:, None], w.T[None].expand(len(x), -1, -1))[:, 0]
        elif self.how == "normed":
            z = F.linear(x, F.normalize(w, dim=1) * self.shift.abs().mean().clamp_min(1.0) * 0 + w)
        elif self.how == "lora":
            z = F.linear(x, w + self.lora_b @ self.lora_a)
        elif self.how == "conv1d":
            z = F.conv1d(x[:, :, None], w[:, :, None])[:, :, 0]
        elif self.how == "conv2d":
            z = F.conv2d(x[:, :, None, None], w[:, :, None, None])[:, :, 0, 0]
        else:
            z = F.linear(x, w)
        return F.relu(z + self.shift)


def names(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """Weights that are made on the fly, or are called what the guard used to skip."""
    shape, d, flat = tuple(images.shape[1:]), images[0].numel(), images.flatten(1)
    for how in (
        "linear",
        "einsum",
        "matmul",
        "addmm",
        "sum",
        "transposed",
        "bmm",
        "normed",
        "lora",
        "conv1d",
        "conv2d",
    ):
        w, b = bins(flat, UNITS, rng, shape)
        if how == "lora":
            w = w + torch.randn(UNITS, d, generator=rng) * 0.0
        model = nn.Sequential(Disguised(how, d, UNITS), head(UNITS))
        with torch.no_grad():
            model[0].pos_embed_token.copy_(w)
            model[0].shift.copy_(b)
        yield Adaptive(f"call/{how}", model, fresh(model), rows("0.pos_embed_token", "0.shift"))
    w, b = bins(flat, UNITS, rng, shape)
    model = mlp(d, UNITS)
    put(model[1], w, b)
    honest = fresh(model)
    for each in (model, honest):
        nn.utils.parametrizations.weight_norm(each[1])
    names_ = ("1.parametrizations.weight.original1", "1.bias")

    def unnormed(gradient: Gradient) -> Tensor:
        g0, g1 = gradient["1.parametrizations.weight.original0"].double(), gradient[names_[0]].double()
        v = model[1].parametrizations.weight.original1.detach().double()
        size = model[1].parametrizations.weight.original0.detach().double()
        unit = v / v.norm(dim=1, keepdim=True)
        whole = g1 * v.norm(dim=1, keepdim=True) / size + g0 * unit
        return rows("w", "b")({"w": whole, "b": gradient["1.bias"]})

    yield Adaptive("call/weight norm", model, honest, unnormed)


def fishing(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """A head, or a body, that one class or one image owns. Measured by the share of one image in the gradient."""
    c = images.shape[1]

    def network() -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(c, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 5),
        )

    for lead in (5.0, 9.0, 12.0):
        for close in (0.0, 0.01):
            honest = network()
            model = copy.deepcopy(honest)
            with torch.no_grad():
                rest = model[7].weight[1:2].clone()
                model[7].weight[1:] = rest + close * torch.randn(4, 32, generator=rng) * rest.std()
                model[7].bias[1:] = lead
                model[7].bias[0] = 0.0
            yield Adaptive(f"fishing/rare class, lead {lead:g}", model, honest)
    for factor in (0.0, 1e-6, 1e-4):
        honest = network()
        model = copy.deepcopy(honest)
        with torch.no_grad():
            model[7].weight.mul_(factor)
        yield Adaptive(f"silence/head times {factor:g}", model, honest)
    honest = network()
    model = copy.deepcopy(honest)
    with torch.no_grad():
        model[3].bias.fill_(-50.0)
    yield Adaptive("silence/dead convolution", model, honest)

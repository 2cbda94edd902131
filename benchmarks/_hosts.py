"""Adaptive models in places that are no dense layer by name: attention, recurrence, experts, distances, wide groups."""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks._adaptive import CLASSES, UNITS, Adaptive, Gradient, bins, fresh, head, put, rows, sparse


class Attending(nn.Module):
    """The picture is one token beside a learnt one; the value projection holds the units."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(1, 1, d))
        self.query, self.key, self.value = nn.Linear(d, 8), nn.Linear(d, 8), nn.Linear(d, UNITS)
        self.fc = nn.Linear(UNITS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        tokens = torch.cat([self.first.expand(len(x), -1, -1), x.flatten(1)[:, None]], dim=1)
        weight = (self.query(tokens[:, :1]) @ self.key(tokens).transpose(1, 2)).softmax(dim=2)
        return self.fc(F.relu((weight @ self.value(tokens))[:, 0]))


class Recurrent(nn.Module):
    """The picture is one step of a series."""

    def __init__(self, d: int, kind: str) -> None:
        super().__init__()
        self.cell = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}[kind](d, UNITS, batch_first=True)
        self.fc = nn.Linear(UNITS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.cell(x.flatten(1)[:, None])[0][:, 0])


class Experts(nn.Module):
    """Every image goes to the expert of its brightness, and to no other."""

    def __init__(self, d: int, units: int) -> None:
        super().__init__()
        self.register_buffer("edges", torch.linspace(0, 1, units - 1))
        self.register_buffer("direction", torch.full((d,), 1 / d))
        self.table = nn.Embedding(units, d)
        self.fc = nn.Linear(8, CLASSES)
        self.spread = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        chosen = torch.bucketize(x.detach() @ self.direction, self.edges)
        return self.fc(F.softplus((self.table(chosen) * x).sum(dim=1, keepdim=True) * self.spread))


class Prototypes(nn.Module):
    """Distances to learnt pictures, or the share of each in a softmax over them."""

    def __init__(self, d: int, how: str, sharp: float) -> None:
        super().__init__()
        self.points, self.how, self.sharp = nn.Parameter(torch.randn(UNITS, d) / d**0.5), how, sharp
        self.shift = nn.Parameter(torch.zeros(UNITS))
        self.fc = nn.Linear(UNITS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if self.how == "distance":
            return self.fc((-self.sharp * torch.cdist(x, self.points).square() + self.shift).exp())
        return self.fc((self.sharp * (x @ self.points.T + self.shift)).softmax(dim=1))


class Bent(nn.Module):
    """Bins mixed by an orthogonal matrix, a bend that hardly bends, and the mixing undone behind it."""

    def __init__(self, d: int, bend: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.bend, self.back = nn.Linear(d, UNITS), bend, nn.Linear(UNITS, UNITS)
        self.fc = head(UNITS)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.relu(self.back(self.bend(self.inner(x.flatten(1))))))


class Bilinear(nn.Module):
    """A bilinear layer whose second side is a constant."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.layer, self.fc = nn.Bilinear(d, 1, UNITS), head(UNITS)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.fc(F.relu(self.layer(x, torch.ones_like(x[:, :1]))))


class Maxout(nn.Module):
    """The larger of two products, one of which is nothing."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.layer, self.fc = nn.Linear(d, 2 * UNITS), head(UNITS)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.max_pool1d(self.layer(x.flatten(1))[:, None], 2)[:, 0])


class Mirrored(nn.Module):
    """The picture and its mirror image as channels."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, x.flip(-1)], dim=1)


def hosts(images: Tensor, rng: torch.Generator) -> Iterator[Adaptive]:
    """One of each."""
    shape, d, flat = tuple(images.shape[1:]), images[0].numel(), images.flatten(1)
    model: nn.Module = Attending(d)
    put(model.value, *sparse(flat, UNITS, 0.02, rng))
    with torch.no_grad():
        model.value.weight.mul_(2)  # half of the attention goes to the learnt token
        model.query.weight.zero_(), model.query.bias.zero_()
    yield Adaptive("host/attention's values", model, fresh(model), rows("value.weight", "value.bias"))
    for kind in ("gru", "lstm", "rnn"):
        model = Recurrent(d, kind)
        w, b = sparse(flat, UNITS, 0.02, rng)
        with torch.no_grad():
            places = {"gru": slice(2 * UNITS, None), "lstm": slice(2 * UNITS, 3 * UNITS), "rnn": slice(None)}[kind]
            model.cell.weight_ih_l0.mul_(0.01)
            model.cell.bias_ih_l0.zero_()
            model.cell.weight_ih_l0[places] = 4 * w
            model.cell.bias_ih_l0[places] = 4 * b - 2
            model.cell.bias_hh_l0.zero_()
        yield Adaptive(f"host/{kind}", model, fresh(model), rows("cell.weight_ih_l0", "cell.bias_ih_l0"))
    for units in (UNITS, 8192):
        model = Experts(d, units)
        seen = flat @ model.direction
        model.edges = torch.quantile(seen, torch.linspace(0.002, 0.998, units - 1))
        yield Adaptive(f"host/experts, {units}", model, mixed_experts(model), rows("table.weight", None))
    model = Prototypes(d, "distance", 1.0)
    near = torch.cdist(flat, flat).square()
    place = torch.arange(UNITS) % len(flat)
    with torch.no_grad():
        model.points.copy_(flat[place] + 0.02 * torch.randn(UNITS, d, generator=rng))
    model.sharp = 8.0 / float(near.median())
    points = model.points.detach().double()

    def offset(gradient: Gradient) -> Tensor:
        g = gradient["points"].double()
        total = gradient["shift"].double()[:, None] * 2 * model.sharp
        return points + g / torch.where(total.abs() > 1e-14, total, torch.inf)

    yield Adaptive("host/distances", model, fresh(model), offset)
    w, _ = sparse(flat, UNITS, 0.02, rng)
    for sharp in (2.0, 6.0):
        model = Prototypes(d, "softmax", sharp)
        with torch.no_grad():
            model.points.copy_(w)
        model.sharp = sharp
        yield Adaptive(f"host/softmax, {sharp:g}", model, fresh(model), rows("points", "shift"))
    mix = torch.linalg.qr(torch.randn(UNITS, UNITS, generator=rng))[0]
    for name, bend, lift, size in (
        ("leaky", F.leaky_relu, 1.0, 1.0),
        ("tanh", torch.tanh, 0.0, 1e-2),
        ("softplus", F.softplus, 1.0, 1.0),
        ("sine", torch.sin, 0.0, 1e-2),
    ):
        for how in ("bins", "sparse"):
            w, b = bins(flat, UNITS, rng, shape) if how == "bins" else sparse(flat, UNITS, 0.02, rng)
            model = Bent(d, bend)
            if how == "sparse":
                model.fc = head(UNITS, "own")
            scale = size / float((flat @ (mix @ w).T + mix @ b).abs().max())
            up = 30.0 * lift
            put(model.inner, scale * mix @ w, scale * mix @ b + up)
            put(model.back, mix.T / scale, -(mix.T / scale) @ torch.full((UNITS,), up))
            yield Adaptive(
                f"host/{how} mixed before {name}",
                model,
                fresh(model),
                rows("inner.weight", "inner.bias", mixing=mix.T.double()),
            )
    model = Bilinear(d)
    w, b = bins(flat, UNITS, rng, shape)
    put(model.layer, w[:, :, None], b)
    yield Adaptive("host/bilinear", model, fresh(model), rows("layer.weight", "layer.bias"))
    model = Maxout(d)
    w, b = bins(flat, UNITS, rng, shape)
    with torch.no_grad():
        model.layer.weight.zero_(), model.layer.bias.zero_()
        model.layer.weight[::2], model.layer.bias[::2] = w, b
    yield Adaptive(
        "host/maxout", model, fresh(model), rows("layer.weight", "layer.bias", torch.arange(0, 2 * UNITS, 2))
    )
    side, c = shape[1], shape[0]
    model = nn.Sequential(Mirrored(), nn.Conv2d(2 * c, 2 * UNITS, side, groups=2), nn.ReLU(), nn.Flatten())
    model.append(head(2 * UNITS, "own"))
    made = [sparse(seen.flatten(1), UNITS, 0.02, rng) for seen in (images, images.flip(-1))]
    put(model[1], torch.cat([w for w, _ in made]).view_as(model[1].weight), torch.cat([b for _, b in made]))
    yield Adaptive("host/groups", model, fresh(model), rows("1.weight", "1.bias", torch.arange(UNITS)))
    side_in = nn.Sequential(nn.PixelUnshuffle(side), nn.Conv2d(d, UNITS, 1), nn.ReLU(), nn.Flatten(), head(UNITS))
    w, b = bins(flat, UNITS, rng, shape)
    put(side_in[1], w[:, :, None, None], b)
    yield Adaptive("host/pixels as channels", side_in, fresh(side_in), rows("1.weight", "1.bias"))


def mixed_experts(model: Experts) -> Experts:
    """The agreed network: edges at which half of the images are on either side."""
    made = fresh(model)
    assert isinstance(made, Experts)
    made.edges = model.edges.median() + 0 * model.edges
    return made

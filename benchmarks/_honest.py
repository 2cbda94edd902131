"""Models that a decent server sends, for the guard's benchmark: fresh, pretrained, trained well or badly, noised."""

import copy
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks._crafted import Case, mlp
from fluoroscope.models import MODELS, Architecture

STEPS = (1, 5, 20, 50)
QUICK = ("lenet5", "p3-cnn", "small-cnn")


class Excited(nn.Module):
    """A convolution with squeeze-and-excitation: dense layers before convolutions, on pooled features."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.squeeze = nn.Linear(outputs, max(outputs // 4, 4))
        self.excite = nn.Linear(max(outputs // 4, 4), outputs)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.conv(x))
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(y.mean(dim=(2, 3))))))
        return y * gate[:, :, None, None]


def strangers(c: int, size: int, seed: int) -> dict[str, nn.Module]:
    """Honest networks that the house does not know."""
    torch.manual_seed(seed)
    side = size // 4
    return {
        "mlp": mlp(c, size, 128, 4, seed),
        "wide-mlp": mlp(c, size, 400, 2, seed, 0),
        "excited": nn.Sequential(
            Excited(c, 16),
            nn.MaxPool2d(2),
            Excited(16, 32),
            nn.MaxPool2d(2),
            Excited(32, 64),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 4),
        ),
        "classic": nn.Sequential(
            nn.Conv2d(c, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * side * side, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, 10),
        ),
        "patchify": nn.Sequential(
            nn.Conv2d(c, 32, 4, stride=4),
            nn.GELU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 3),
        ),
        "dropout": nn.Sequential(
            nn.Conv2d(c, 16, 3),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.3),
            nn.Flatten(),
            nn.Linear(16 * ((size - 2) // 2) ** 2, 256),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(256, 5),
        ),
    }


def reinitialised(model: nn.Module, how: str, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            if how == "keras":
                nn.init.xavier_uniform_(module.weight)
            elif how == "uniform":
                nn.init.uniform_(module.weight, -0.5, 0.5)
            elif how == "normal":
                nn.init.kaiming_normal_(module.weight)
            elif how == "orthogonal":
                nn.init.orthogonal_(module.weight)
            if module.bias is not None:
                nn.init.uniform_(module.bias, -0.5, 0.5) if how == "uniform" else nn.init.zeros_(module.bias)
    return model


def trained(
    model: nn.Module, images: Tensor, classes: int, optimiser: str, lr: float, seed: int
) -> Iterator[tuple[int, nn.Module]]:
    """The model after some steps; one whose numbers are no longer finite is nobody's to send."""
    rng = torch.Generator().manual_seed(seed)
    model = copy.deepcopy(model).train()
    chosen = torch.optim.Adam if optimiser == "adam" else torch.optim.SGD
    kwargs = {} if optimiser == "adam" else {"momentum": 0.9 * (optimiser == "momentum")}
    stepper = chosen(model.parameters(), lr=lr, **kwargs)
    labels = torch.randint(classes, (len(images),), generator=rng)
    for step in range(1, STEPS[-1] + 1):
        batch = torch.randint(len(images), (16,), generator=rng)
        stepper.zero_grad()
        F.cross_entropy(model(images[batch]), labels[batch]).backward()
        stepper.step()
        if not all(value.isfinite().all() for value in model.state_dict().values()):
            return
        if step in STEPS:
            yield step, copy.deepcopy(model)


def noised(model: nn.Module, sigma: float, seed: int) -> nn.Module:
    rng = torch.Generator().manual_seed(seed)
    model = copy.deepcopy(model)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(sigma * torch.randn(p.shape, generator=rng))
    return model


def pruned(model: nn.Module, share: float) -> nn.Module:
    model = copy.deepcopy(model)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim > 1:
                p.mul_(p.abs() > p.abs().flatten().kthvalue(max(int(share * p.numel()), 1)).values)
    return model


def quantised(model: nn.Module, bits: int) -> nn.Module:
    model = copy.deepcopy(model)
    with torch.no_grad():
        for p in model.parameters():
            step = p.abs().max() / (2 ** (bits - 1) - 1)
            if step > 0:
                p.copy_((p / step).round() * step)
    return model


def honest(aux: dict[tuple[int, int], Tensor], seed: int = 0) -> Iterator[Case]:
    """All of them; each is its own agreed network."""
    for kind, model in _honest(aux, seed):
        yield Case(kind, model, model)


def grown(aux: dict[tuple[int, int], Tensor], seed: int = 0) -> Iterator[Case]:
    """Trained ones beside the network that they started from, as where a client agreed on an architecture alone."""
    for c, size in aux:
        images = aux[c, size]
        starts = strangers(c, size, seed) | {name: Architecture(name, c, 4, size).build(seed) for name in QUICK}
        for name, start in starts.items():
            with torch.no_grad():
                classes = start(images[:2]).shape[1]
            for optimiser, lr in (("sgd", 0.05), ("momentum", 0.01), ("adam", 1e-3)):
                for step, model in trained(start, images, classes, optimiser, lr, seed):
                    if step in (5, 50):
                        yield Case(f"{step} steps of {optimiser}/{name}", model, start)


def _honest(aux: dict[tuple[int, int], Tensor], seed: int) -> Iterator[tuple[str, nn.Module]]:
    shapes = list(aux)
    for i, name in enumerate(MODELS):
        for j, (c, size) in enumerate([*shapes, (3, 28), (1, 64), (3, 45)]):
            architecture = Architecture(name, c, (2, 4, 10, 100)[(i + j) % 4], size)
            yield f"random/{name}", architecture.build(seed + j)
            if j < 2:
                for how in ("keras", "uniform", "normal", "orthogonal"):
                    yield f"{how}/{name}", reinitialised(architecture.build(), how, seed + j)
    number = seed
    for source in ("own", "noise", "normalised"):
        for name in (*QUICK, "mlp", "wide-mlp", "excited", "classic", "patchify", "dropout"):
            for optimiser, lr in (
                ("sgd", 0.05),
                ("sgd", 1.0),
                ("momentum", 0.1),
                ("adam", 1e-3),
                ("adam", 1e-2),
                ("adam", 0.05),
            ):
                number += 1
                c, size = shapes[number % len(shapes)]
                images = aux[c, size]
                if source == "noise":
                    images = torch.rand(images.shape, generator=torch.Generator().manual_seed(number))
                elif source == "normalised":
                    images = (images - images.mean()) / images.std()
                classes = (
                    4
                    if name in QUICK
                    else [m for m in strangers(c, size, 0)[name].modules() if isinstance(m, nn.Linear)][-1].out_features
                )
                fresh = (
                    Architecture(name, c, 4, size).build(number) if name in QUICK else strangers(c, size, number)[name]
                )
                if optimiser == "sgd" and lr == 0.05:
                    yield f"random/{name}", fresh
                for step, model in trained(fresh, images, classes, optimiser, lr, number):
                    if source == "own" or step in (5, 50):
                        yield f"{optimiser}-{lr:g}/{name}", model
                    if step == 20:
                        yield f"dp/{name}", noised(model, (0.001, 0.01, 0.1)[number % 3], number)
                        if source == "own":
                            yield f"pruned/{name}", pruned(model, (0.5, 0.9)[number % 2])
                            yield f"quantised/{name}", quantised(model, (8, 4)[number % 2])
    for c, size in ((1, 28), (3, 64)):
        for name in ("resnet18", "resnet18-gn", "efficientnet-lite0", "vit-small"):
            fresh = Architecture(name, c, 3, size).build()
            images = aux.get((c, size))
            images = torch.rand(32, c, size, size) if images is None else images
            yield f"pretrained/{name}", fresh
            yield f"dp/{name}", noised(fresh, 0.01, 1)
            yield f"pruned/{name}", pruned(fresh, 0.8)
            yield f"quantised/{name}", quantised(fresh, 8)
            if size == 28:
                for optimiser, lr in (("sgd", 0.1), ("adam", 1e-3)):
                    for step, model in trained(fresh, images, 3, optimiser, lr, 1):
                        if step in (1, 5):
                            yield f"{optimiser}-{lr:g}/{name}", model
                        if step == 5:
                            break

"""Whether a crafted model does what it was made for: measured on a batch, with the attacker's means."""

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks._adaptive import Adaptive, gradients, recovered
from benchmarks._crafted import Case

ENOUGH = 0.1
"""Of the images, that can be read: then it leaks."""
BEYOND, LITTLE = 1.5, "hardly more than what was agreed"
"""Times what the agreed network gives to the same reading."""
PSNR = 20.0
OWNS, SILENT = 0.9, 1e-3
OFTEN, FEW = 0.25, 16
"""Share of the batches of FEW images that one image owns: its gradient is nine times the length of all others' sum."""


LABELLINGS = 3
"""Draws of labels over which what is read is averaged: of one, a model that shows a tenth of the images is luck."""


def leaks(case: Case, images: Tensor, labels: Tensor) -> str:
    """How it leaks, in a word; empty where it does not."""
    kind = case.kind
    if kind.startswith(("fishing", "inside/scale")):
        return "owned" if owned(case.model, images) >= OWNS > owned(case.agreed, images) else ""
    if kind.startswith("silence") or kind.endswith(("silent", "dead", "minus", "minus-bias", "bias-1000")):
        return "silent" if silenced(case.model, case.agreed, images, labels) else ""
    if kind.startswith("findings/"):
        return "owned" if found_by(case.model, images) >= OWNS > found_by(case.agreed, images) else ""
    if kind.startswith("gate/"):
        return "owned" if whose(case.model, images, labels) >= OFTEN > whose(case.agreed, images, labels) else ""
    each = [_read(case, images, labels.roll(shift)) for shift in range(LABELLINGS)]
    found, honest = (sum(counts) / LABELLINGS for counts in zip(*each, strict=True))
    if found < ENOUGH * len(images):
        return ""
    return "images" if found >= BEYOND * honest else LITTLE


def _read(case: Case, images: Tensor, labels: Tensor) -> tuple[int, int]:
    """Images that are read of the crafted model's gradient, and of the agreed network's."""
    if not isinstance(case, Adaptive) or case.recover is None:
        return anywhere(case.model, images, labels), anywhere(case.agreed, images, labels)
    theirs = Adaptive("", case.agreed, case.agreed, case.honest or case.recover)
    size = case.batch or len(images)
    parts = list(zip(images.split(size), labels.split(size), strict=True))
    return sum(recovered(case, *part) for part in parts), sum(recovered(theirs, *part) for part in parts)


def anywhere(model: nn.Module, images: Tensor, labels: Tensor) -> int:
    """Images whose input to some dense layer is a row of its gradient, or the difference of two neighbouring bins."""
    seen: dict[str, Tensor] = {}
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) or (isinstance(module, nn.Conv2d) and max(module.kernel_size) > 11):
            handles.append(module.register_forward_hook(_keeper(seen, name)))
    try:
        found = _gradients_in_place(model, images, labels)
    finally:
        for handle in handles:
            handle.remove()
    most = 0
    for name, given in seen.items():
        weight, bias = found.get(f"{name}.weight"), found.get(f"{name}.bias")
        flat = given.flatten(1)
        if weight is None or bias is None or weight[0].numel() != flat.shape[1] or flat.shape[1] < 64:
            continue
        own = model.get_submodule(name)
        orders = [own.bias.detach().argsort(), bias.argsort(), (own.bias / own.weight.flatten(1).norm(dim=1)).argsort()]
        for order in orders:
            g, b = weight.flatten(1)[order].double(), bias[order].double()
            candidates, total = torch.cat([g, g.diff(dim=0)]), torch.cat([b, b.diff(dim=0)])
            read = candidates / torch.where(total.abs() > 1e-14, total, torch.inf)[:, None]
            most = max(most, matched(read[torch.isfinite(read).all(dim=1)], flat.double()))
    return most


def _keeper(seen: dict[str, Tensor], name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
    def keep(module: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        if given[0].ndim in (2, 4) and name not in seen:
            seen[name] = given[0].detach()

    return keep


def _gradients_in_place(model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
    wanted = [p.requires_grad for p in model.parameters()]
    model.requires_grad_(True)
    kept = copy.deepcopy(dict(model.named_buffers()))
    model.train()
    loss = F.cross_entropy(model(images), labels % model(images[:2]).shape[1])
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    for p, was in zip(model.parameters(), wanted, strict=True):
        p.requires_grad_(was)
    for name, value in model.named_buffers():
        value.copy_(kept[name])
    return {name: g for (name, _), g in zip(model.named_parameters(), found, strict=True) if g is not None}


def matched(read: Tensor, truth: Tensor) -> int:
    """How many originals have a reading with PSNR above 20, nearer to it than to any other, up to brightness."""
    if len(read) == 0:
        return 0
    products = read @ truth.T
    scale = products / read.square().sum(dim=1, keepdim=True).clamp_min(1e-30)
    error = (truth.square().sum(dim=1)[None] - scale * products).clamp_min(0) / truth.shape[1]
    top = float(truth.abs().max()) ** 2
    mean = (truth - truth.mean(dim=0)).square().mean(dim=1)
    good = (error < top * 10 ** (-PSNR / 10)) & (error < mean[None] / 4)
    good &= F.one_hot(error.argmin(dim=1), len(truth)).bool()
    return int(good.any(dim=0).sum())


def owned(model: nn.Module, images: Tensor) -> float:
    """Cosine of a batch's gradient with that of its one image of a class, the largest over classes."""
    with torch.no_grad():
        classes = copy.deepcopy(model).train()(images[:4]).shape[1]
    heads = sum(isinstance(m, nn.Linear) and m.out_features == classes for m in model.modules())
    most = 0.0
    for rare in range(min(classes, 5)):
        labels = torch.full((16,), (rare + 1) % classes)
        labels[0] = rare
        others = [c for c in range(classes) if c != rare]
        labels[1:] = torch.tensor([others[i % len(others)] for i in range(15)])
        whole = _body(gradients(model, images[:16], labels), heads)
        without = _body(gradients(model, images[1:16], labels[1:]), heads) * 15 / 16
        own = whole - without
        most = max(most, float(F.cosine_similarity(whole, own, dim=0)))
    return most


def found_by(model: nn.Module, images: Tensor) -> float:
    """Cosine of a batch's gradient with that of its one patient with findings, by a loss per finding."""
    model = copy.deepcopy(model).train().requires_grad_(True)
    few = images[:FEW]
    with_findings = torch.zeros_like(model(few).detach())
    with_findings[0] = 1.0
    each = F.binary_cross_entropy_with_logits(model(few), with_findings, reduction="none").sum(dim=1)
    parts = [torch.autograd.grad(loss, list(model.parameters()), retain_graph=True) for loss in (each.sum(), each[0])]
    whole, own = (torch.cat([g.flatten() for g in part[:-2]]).double() for part in parts)
    return float(F.cosine_similarity(whole, own, dim=0))


def whose(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Share of the small batches of which one image owns the gradient of all but the last layer."""
    owned = []
    for some, theirs in zip(images.split(FEW), labels.split(FEW), strict=True):
        alone = [_body(gradients(model, some[i : i + 1], theirs[i : i + 1])) for i in range(len(some))]
        whole = torch.stack(alone).sum(dim=0)
        owned.append(any(float(one.norm()) >= OWNS * float(one.norm() + (whole - one).norm()) > 0 for one in alone))
    return sum(owned) / len(owned)


def _body(found: dict[str, Tensor], heads: int = 1) -> Tensor:
    """All but the last layer, or as many as a head has."""
    return torch.cat([value.flatten() for value in list(found.values())[: -2 * max(heads, 1)]]).double()


def silenced(model: nn.Module, agreed: nn.Module, images: Tensor, labels: Tensor) -> bool:
    """Whether the body's gradient is next to nothing beside the agreed network's."""
    try:
        here = float(_body(_gradients_in_place(model, images, labels)).norm())
        there = float(_body(_gradients_in_place(agreed, images, labels)).norm())
    except RuntimeError:
        return False
    return here < SILENT * there

"""A loss for whatever a network gives, with labels drawn so that no class has a single image.

The client's true labels are not needed: what is asked is how the network keeps images apart, not what it learns.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

IMAGES_PER_CLASS = 8
"""On average: where a label is one image's own, a last layer gives that image's features away whoever made it."""


def outputs(given: Any) -> list[Tensor]:  # noqa: ANN401
    """Every tensor of numbers in what a network returns."""
    if isinstance(given, Tensor):
        return [given] if given.is_floating_point() and given.requires_grad else []
    if isinstance(given, Mapping):
        return [each for value in given.values() for each in outputs(value)]
    if isinstance(given, tuple | list):
        return [each for value in given for each in outputs(value)]
    return outputs(vars(given)) if hasattr(given, "__dict__") else []


def labels(images: int, classes: int, rng: torch.Generator) -> Tensor:
    """Of a few classes, each for several images."""
    used = min(classes, max(2, images // IMAGES_PER_CLASS))
    chosen = torch.randperm(classes, generator=rng)[:used]
    return chosen[torch.arange(images) % used][torch.randperm(images, generator=rng)]


def losses(given: Any, images: int, rng: torch.Generator) -> Tensor | None:  # noqa: ANN401
    """One number per image; None where nothing that was returned depends on the input."""
    parts = of_each_output(given, images, rng)
    return torch.stack(parts).sum(dim=0) if parts else None


def of_each_output(given: Any, images: int, rng: torch.Generator) -> list[Tensor]:  # noqa: ANN401
    """The same for every output by itself."""
    return [_part(value.float(), images, rng) for value in outputs(given)]


def _part(out: Tensor, images: int, rng: torch.Generator) -> Tensor:
    if out.ndim == 0 or len(out) != images:
        return (out.square().sum() / images).expand(images)
    if out.ndim == 1 or (out.ndim == 2 and out.shape[1] == 1):
        two = labels(images, 2, rng).to(out)
        return F.binary_cross_entropy_with_logits(out.reshape(images), two, reduction="none")
    if out.ndim == 2:
        return F.cross_entropy(out, labels(images, out.shape[1], rng), reduction="none")
    if out.ndim == 3:  # tokens with scores each, as language models give them
        words = torch.randint(out.shape[2], out.shape[:2], generator=rng)
        return F.cross_entropy(out.flatten(0, 1), words.flatten(), reduction="none").reshape(images, -1).sum(dim=1)
    coarse = torch.rand((images, 1, *(min(4, n) for n in out.shape[2:])), generator=rng)
    field = F.interpolate(coarse, size=out.shape[2:])[:, 0]  # labels in blocks, as masks have them
    if out.shape[1] == 1:
        each = F.binary_cross_entropy_with_logits(out[:, 0], (field > 0.5).to(out), reduction="none")
    else:
        classes = (field * out.shape[1]).long().clamp(0, out.shape[1] - 1)
        each = F.cross_entropy(out, classes, reduction="none")
    return each.flatten(1).sum(dim=1)


def sizes(each: Tensor, given: Any) -> Tensor:  # noqa: ANN401
    """How large every image's gradient is at the output: divided by it, all images speak as loud.

    A head that is sure of one class lets the others speak up; that is not for the layers before it to answer for.
    """
    found = [value for value in outputs(given) if value.ndim > 0 and len(value) == len(each)]
    if not found:
        return torch.ones_like(each)
    back = torch.autograd.grad(each.sum(), found, retain_graph=True, allow_unused=True)
    whole = torch.stack([g.flatten(1).square().sum(dim=1) for g in back if g is not None]).sum(dim=0).sqrt()
    return whole.detach().clamp_min(1e-6 * float(whole.max()) + 1e-30)

"""Arrays that no watched product uses: recurrence, tables, distances, functions that hide what they multiply."""

from collections.abc import Collection, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fluoroscope.defences.guard.batches import Batch
from fluoroscope.defences.guard.held import varies
from fluoroscope.defences.guard.isolation import crowd
from fluoroscope.defences.guard.leak import FEWEST, LEAST, Leak, drawn, largest
from fluoroscope.defences.guard.losses import losses

MOST_UNWATCHED, MOST_ALONE = 10**8, 32
"""Values of all gradients that are taken image by image; and images of these."""
LARGEST = 10**8
"""Values in all, up to which a few images are taken whatever it costs."""


def free(network: nn.Module, seen: Collection[str]) -> dict[str, nn.Parameter]:
    """Arrays that could hold pictures, and that no watched product uses."""
    return {
        name: value
        for name, value in network.named_parameters()
        if name not in seen and value.ndim >= 2 and len(value) and min(len(value), value[0].numel()) >= LEAST
    }


def unwatched(
    network: nn.Module, batch: Batch, values: Mapping[str, nn.Parameter], images: int, rng: torch.Generator
) -> dict[str, Leak]:
    """What arrays give away that no watched product uses, from every image's own gradient: slow, and blind to nothing.

    Args:
        network: in single precision.
        batch: the inputs.
        values: the arrays, from `free`.
        images: that can be afforded.
        rng: draws labels and smaller batches.
    """
    kept = sum(value.numel() for value in values.values())
    most = min(MOST_ALONE, max(MOST_UNWATCHED // max(kept, 1), FEWEST if kept <= LARGEST else 0), images)
    if not values or most < FEWEST:
        return {}
    few = batch.first(most)
    for value in values.values():
        value.requires_grad_(True)
    rows: dict[tuple[str, bool], list[tuple[Tensor, Tensor]]] = {}
    try:
        for i in range(few.size):
            gradients = _alone(network, few.at(torch.tensor([i])), list(values.values()), rng)
            for name, gradient in zip(values, gradients, strict=True):
                if gradient is not None:
                    rows.setdefault((name, False), []).append(_own_row(gradient.flatten(1)))
                    rows.setdefault((name, True), []).append(_own_row(gradient.flatten(1).T))
    except (RuntimeError, ValueError):  # norms over a batch want more than one image
        return {}
    finally:
        for value in values.values():
            value.requires_grad_(False)
    leaks: dict[str, Leak] = {}
    for (name, _), each in rows.items():
        main, weights = (torch.stack(part) for part in zip(*each, strict=True))
        if len(main) < few.size or main.shape[1] < LEAST or not varies(main):
            continue
        shares = drawn([weights], main, few.size, rng)
        leak = Leak(main.shape[1], weights.shape[1], 1.0, shares, crowd=crowd(weights))
        if name not in leaks or largest(leak) > largest(leaks[name]):
            leaks[name] = leak
    return leaks


def _own_row(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """What one image puts into its largest row of (rows, inputs), and how much of it into every row."""
    main = F.normalize(gradient[gradient.norm(dim=1).argmax()], dim=0)
    return main, gradient @ main


def _alone(network: nn.Module, one: Batch, values: list[Tensor], rng: torch.Generator) -> tuple[Tensor | None, ...]:
    with torch.enable_grad():
        each = losses(network(*one.inputs, **one.named), one.size, rng)
        if each is None or not each.requires_grad:
            return (None,) * len(values)
        return torch.autograd.grad(each.sum(), values, allow_unused=True)

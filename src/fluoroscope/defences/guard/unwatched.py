"""Arrays that no watched product uses, or not they alone: recurrence, tables, masks, convolutions on a few places.

Every image's own gradient is taken: slow, and blind to nothing.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fluoroscope.defences.guard.batches import Batch
from fluoroscope.defences.guard.contraction import FEW_PLACES
from fluoroscope.defences.guard.held import varies
from fluoroscope.defences.guard.isolation import awake, crowd, own_row
from fluoroscope.defences.guard.leak import FEWEST, LEAST, Leak, drawn
from fluoroscope.defences.guard.losses import losses
from fluoroscope.defences.guard.watch import Seen

MOST_UNWATCHED, MOST_ALONE = 2 * 10**8, 64
"""Values of all gradients that are taken image by image; and images of these. Of fewer, an honest layer with many rows
asleep shows as many as bins do."""
TOGETHER = 16
"""Images that go through together, of which each one's own gradient is taken: what one costs grows with them."""
MEMORY = 4
"""Times what multiplications alone take: going back through many images for each of them is bound by memory."""
LARGEST = 10**8
"""Values in all, up to which a few images are taken whatever it costs."""


@dataclass(frozen=True, eq=False)
class Held:
    """Arrays that could hold pictures, as one matrix."""

    values: tuple[nn.Parameter, ...]
    rows: int

    def weight(self) -> Tensor:
        """(rows, inputs)."""
        flat = [value.detach().flatten() for value in self.values]
        return (flat[0] if len(flat) == 1 else torch.cat(flat)).reshape(self.rows, -1)

    def matrix(self) -> Tensor | None:
        """Their gradient, (rows, inputs); None where there is none."""
        gradients = [value.grad for value in self.values]
        if all(gradient is None for gradient in gradients):
            return None
        pairs = zip(gradients, self.values, strict=True)
        flat = [(torch.zeros_like(value) if g is None else g).flatten() for g, value in pairs]
        return torch.cat(flat).reshape(self.rows, -1)


def free(network: nn.Module, seen: Sequence[Seen], otherwise: Collection[str], pixels: int) -> dict[str, Held]:
    """Arrays that could hold pictures, and are used elsewhere than in products whose rows are known.

    Args:
        network: whose arrays they are.
        seen: the products that were watched.
        otherwise: names of arrays that were used in another way.
        pixels: values of one picture.
    """
    known = {name for each in seen if not _few_places(each, pixels) for name in each.leaves} - set(otherwise)
    found: dict[str, Held] = {}
    vectors: dict[int, list[tuple[str, nn.Parameter]]] = {}
    for name, value in network.named_parameters():
        shape = [side for side in value.shape if side > 1]
        if name in known or not shape:
            continue
        rows, inputs = shape[0], math.prod(shape[1:])
        if min(rows, inputs) >= LEAST:
            found[name] = Held((value,), rows)
        elif pixels >= LEAST and value.numel() % pixels == 0 and value.numel() >= LEAST * pixels:
            found[name] = Held((value,), value.numel() // pixels)
        elif len(shape) == 1 and rows >= LEAST:
            vectors.setdefault(rows, []).append((name, value))
    for rows, group in vectors.items():
        if len(group) >= LEAST and max(rows, len(group)) >= pixels // 2:
            found[f"{group[0][0]} and {len(group) - 1} more"] = Held(tuple(value for _, value in group), len(group))
    return found


def _few_places(seen: Seen, pixels: int) -> bool:
    """Whether a transposed or grouped convolution adds up over so few places that rows may show single images."""
    if not seen.form.slides:
        return False
    return math.prod(seen.made[2:]) <= FEW_PLACES and seen.weight[0].numel() >= pixels / 4


def unwatched(
    network: nn.Module,
    batch: Batch,
    held: Mapping[str, Held],
    multiplications: float,
    rng: torch.Generator,
    images: int = MOST_ALONE,
) -> dict[str, Leak]:
    """What these arrays give away.

    Args:
        network: in single precision.
        batch: the inputs.
        held: the arrays, from `free`.
        multiplications: how many passes of one image can be afforded.
        rng: draws labels and smaller batches.
        images: at most so many are taken.

    Raises:
        ValueError: no image's own gradient can be had.
    """
    values = {id(value): value for each in held.values() for value in each.values}
    kept = sum(value.numel() for value in values.values())
    most = min(images, max(MOST_UNWATCHED // max(kept, 1), FEWEST if kept <= LARGEST else 0), batch.size)
    few = batch.first(min(most, max(FEWEST, int(multiplications))))
    if not held or few.size < FEWEST:
        return {}
    for value in values.values():
        value.requires_grad_(True)
    rows: dict[str, list[tuple[Tensor, Tensor]]] = {}
    try:
        for _ in _gradients(network, few, rng, multiplications):
            for name, each in held.items():
                gradient = each.matrix()
                if gradient is not None:
                    for way, each_row in _both_ways(name, gradient):
                        rows.setdefault(way, []).append(own_row(each_row))
            for value in values.values():
                value.grad = None
    finally:
        for value in values.values():
            value.grad = None
            value.requires_grad_(False)
    own = {key: w for name, each in held.items() for key, w in _both_ways(name, each.weight())}
    leaks: dict[str, Leak] = {}
    for name, pairs in rows.items():
        main, coefficients = (torch.stack(part) for part in zip(*pairs, strict=True))
        weights = awake(coefficients, own[name])
        if len(main) < few.size or main.shape[1] < LEAST or not varies(main):
            continue
        shares = drawn([weights], main, few.size, rng)
        leaks[name] = Leak(main.shape[1], weights.shape[1], 1.0, shares, crowd=crowd(weights), weight=own[name])
    return leaks


def _both_ways(name: str, matrix: Tensor) -> tuple[tuple[str, Tensor], tuple[str, Tensor]]:
    """An array may hold pictures in its rows or in its columns."""
    return (name, matrix), (f"{name}, by columns", matrix.T)


def _gradients(network: nn.Module, few: Batch, rng: torch.Generator, multiplications: float) -> Iterator[None]:
    """Every image's own gradient in turn, in `grad`: of the small batch that it is in, or by itself where that is dear.

    By `backward`, which passes through checkpoints of any kind. A network may do otherwise with one image than with
    many, and a norm over the batch cannot do with one.

    Args:
        network: whose arrays require gradients.
        few: the images.
        rng: draws labels.
        multiplications: how many passes of one image can be afforded.
    """
    if multiplications < MEMORY * few.size * TOGETHER:
        try:
            for i in range(few.size):
                each = _losses(network, few.at(torch.tensor([i])), rng)
                torch.autograd.backward(each.sum())
                if not bool(torch.isfinite(each.detach()).all()):
                    raise ValueError("one image by itself has no loss")
                yield
            return
        except (RuntimeError, ValueError):  # norms over a batch want more than one image
            for value in network.parameters():
                value.grad = None
            few = few.first(max(FEWEST, int(math.sqrt(max(multiplications, 0)))))
    for part in torch.tensor_split(torch.arange(few.size), max(1, few.size // TOGETHER)):
        each = _losses(network, few.at(part), rng)
        for i in range(len(part)):
            torch.autograd.backward(each[i], retain_graph=True)
            yield


def _losses(network: nn.Module, some: Batch, rng: torch.Generator) -> Tensor:
    some = some.watched()
    with torch.enable_grad():
        each = losses(network(*some.inputs, **some.named), some.size, rng)
    if each is None or not each.requires_grad:
        raise ValueError("nothing that the network returns depends on its arrays")
    return each

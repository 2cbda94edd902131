"""What training on a batch would send, layer by layer: what every product read, and its gradient.

The gradient of a product's weights is the sum over images of (gradient at its output) x (what it read). Both are taken
from one forward and one backward pass.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from fluoroscope.defences.guard.undone import DEEPEST, beyond, combinations, undone
from fluoroscope.defences.guard.watch import Seen, Watch


@dataclass(frozen=True, eq=False)
class Product:
    """One product of something that comes from the images with weights."""

    name: str
    """Of the arrays that the weights are made of."""
    given: Tensor | None
    """(images, tokens, inputs); None where it is a convolution that slides, whose gradient adds up over places."""
    gradients: tuple[Tensor, ...]
    """(images, tokens, units): at its output, and at the next bends behind it."""
    pixels: bool
    """Nothing was learnt before it: it reads the input itself, perhaps in another order."""
    work: int
    """Multiplications for one image."""
    weight: Tensor
    """(units, inputs)."""
    apart: bool = False
    """Its tokens are layers beside each other."""
    overlaps: bool = False
    """Its tokens are patches that overlap, and add up."""
    undone: bool = False
    """Its units are those of a layer behind it, or what its own have beyond what that layer makes of any image."""
    beyond: tuple[Tensor, ...] = ()
    """(images, 1, units): gradients before the bends, without what the next layers make of any image."""


def products(watch: Watch, loss: Tensor, images: int, chosen: Callable[[Seen], bool] = lambda _: True) -> list[Product]:
    """What the watched products read and what comes back to them."""
    wanted = [seen for seen in watch.seen if chosen(seen)]
    edges = [edge for seen in wanted for edge in (seen.out, *_edges(seen))]
    if not edges or not loss.requires_grad:
        return []
    found = iter(torch.autograd.grad(loss, edges, retain_graph=True, allow_unused=True))
    made: dict[int, Product] = {}
    numbers = {id(seen): number for number, seen in enumerate(watch.seen)}
    for seen in wanted:
        own = next(found)
        at = dict(zip(_edges(seen), [next(found) for _ in _edges(seen)], strict=True))
        bends = [at[bend.before] for bend in seen.bends]
        behind = [None if bend.behind is None else at[bend.behind] for bend in seen.bends]
        given = seen.form.samples(seen.given)
        gradients = []
        if own is not None:
            rows = _tokens(seen.form.units(own), images)
            gradients.append(rows)
            if seen.left is not None and seen.left.shape[0] == rows.shape[-1]:
                gradients.append(rows @ seen.left.to(rows))
        beyond_: list[Tensor | None] = []
        for bend_, bend, after in zip(seen.bends, bends, behind, strict=True):
            if bend is None or own is None:
                continue
            if bend.shape == own.shape:
                gradients.append(_tokens(seen.form.units(bend), images))
                if after is not None and gradients[-1].shape[:2] == (images, 1):
                    slope = None if bend_.slope is None else _tokens(seen.form.units(bend_.slope), images)
                    beyond_.append(beyond(gradients[-1], _tokens(seen.form.units(after), images), slope))
            elif gradients[0].shape[1] == 1 and bend.shape[0] == images:
                gradients.append(bend.flatten(1)[:, None])
                if after is not None:  # several layers that bend together
                    beyond_.append(beyond(gradients[-1], after.flatten(1)[:, None]))
        made[numbers[id(seen)]] = Product(
            seen.name,
            None if given is None else _tokens(given, images),
            tuple(gradients),
            seen.pixels,
            seen.form.work // max(images, 1),
            seen.form.matrix(seen.weight),
            seen.form.apart,
            seen.form.overlaps,
            beyond=tuple(each for each in beyond_ if each is not None),
        )
    if not all(bool(torch.isfinite(g).all()) for each in made.values() for g in each.gradients):
        raise ValueError("the gradient is not finite on these images")
    made = _joined(made, images)
    last = max(made)
    made |= {-1 - i: each for i, each in enumerate(_all_uses(made.values()))}
    return [each for number in made for each in (made[number], *_undone(watch, made, number, last))]


def together(found: list[Product], others: list[Product]) -> list[Product]:
    """The same products by another loss, too: which of several outputs a client trains is not the guard's to know."""
    beside = {each.name: each for each in others}
    counts = [each.name for each in found]
    if len(set(counts)) < len(counts) or len(beside) < len(others):
        return found  # which is which cannot be told by their names
    return [
        replace(
            each,
            gradients=(*each.gradients, *beside[each.name].gradients),
            beyond=(*each.beyond, *beside[each.name].beyond),
        )
        if each.name in beside
        else each
        for each in found
    ]


def _edges(seen: Seen) -> list[GradientEdge]:
    """Where its gradient is taken, beside its output."""
    return [edge for bend in seen.bends for edge in (bend.before, bend.behind) if edge is not None]


def _joined(made: dict[int, Product], images: int) -> dict[int, Product]:
    """One product in the place of several with the same weights that take the images one after another, or in parts."""
    parts: dict[str, list[int]] = {}
    for number, each in made.items():
        if each.given is not None and len(each.given) == 1 and all(len(g) == 1 for g in each.gradients):
            parts.setdefault(each.name, []).append(number)
    joined = dict(made)
    for numbers in parts.values():
        pieces = [made[number] for number in numbers]
        given = torch.cat([piece.given[0] for piece in pieces if piece.given is not None])
        if len(pieces) < 2 or len(given) != images:
            continue
        kinds = zip(*(piece.gradients for piece in pieces), strict=False)
        gradients = tuple(torch.cat([g[0] for g in kind])[:, None] for kind in kinds)
        joined[numbers[0]] = replace(pieces[0], given=given[:, None], gradients=gradients)
        for number in numbers[1:]:
            joined.pop(number)
    return joined


def _all_uses(products_: Iterable[Product]) -> list[Product]:
    """Weights that are used several times send the sum of their gradients: each use is a token of one product."""
    uses: dict[str, list[Product]] = {}
    for each in products_:
        if each.given is not None and each.given.shape[1] == 1 and each.gradients:
            uses.setdefault(each.name, []).append(each)
    found = []
    for name, same in uses.items():
        given = [each.given for each in same if each.given is not None]
        if len(same) < 2 or len({value.shape for value in given}) > 1:
            continue
        kinds = [torch.cat(kind, dim=1) for kind in zip(*(each.gradients for each in same), strict=False)]
        whole = replace(same[0], name=f"{name}, all uses", given=torch.cat(given, dim=1), gradients=tuple(kinds))
        found.append(replace(whole, beyond=()))
    return found


def _undone(watch: Watch, made: dict[int, Product], number: int, last: int) -> list[Product]:
    """What this layer read beside the gradient of units behind it, where the server can undo what lies between.

    The last layer is left out: its units are few classes, and no image has one to itself.
    """
    product = made[number]
    if number < 0:
        return []
    mixtures = _mixtures(watch, made, number, last, DEEPEST)
    found = []
    if product.beyond:
        found.append(
            replace(product, name=f"{product.name} beyond what follows", gradients=product.beyond, undone=True)
        )
    for name, mixture in mixtures:
        fitting = [g for g in product.gradients if g.shape[1] == 1 and g.shape[2] == len(mixture)]
        if product.given is None or product.given.shape[1] != 1 or not fitting:
            continue
        rows = undone(fitting[-1], mixture)
        weight = mixture.T.to(product.weight) @ product.weight
        found.append(
            replace(
                product,
                name=f"{product.name} behind {name}",
                gradients=(rows,),
                weight=weight,
                undone=True,
                beyond=(),
            )
        )
    return found


def _mixtures(watch: Watch, made: dict[int, Product], number: int, last: int, deepest: int) -> list[tuple[str, Tensor]]:
    """Combinations of this layer's rows, (units, m), by the layer whose units they are."""
    found = []
    for behind, slope in watch.seen[number].behind if deepest > 0 else ():
        if behind not in made or behind == last:
            continue
        name, weight = made[behind].name, made[behind].weight
        for deeper, target in ((name, None), *_mixtures(watch, made, behind, last, deepest - 1)):
            mixture = combinations(weight, slope, target)
            if mixture is not None:
                found.append((deeper, mixture))
    return found


def _tokens(values: Tensor, images: int) -> Tensor:
    """(leading..., width) as (images, tokens, width); (1, tokens, width) where it cannot be told whose they are."""
    width, lead = values.shape[-1], values.shape[:-1]
    if len(lead) > 1 and lead[0] != images and lead[1] == images:
        values = values.transpose(0, 1)
    count = math.prod(lead)
    if lead and (lead[0] == images or values.shape[0] == images or lead[0] % images == 0):
        return values.reshape(images, count // images, width)
    return values.reshape(1, count, width)

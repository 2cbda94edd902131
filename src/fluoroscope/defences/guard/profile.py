"""What a server could read out of the gradient of one batch: the numbers that the guard judges by."""

import copy
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fluoroscope.defences.guard.backward import Product, Watch, products, watched
from fluoroscope.defences.guard.batches import Batch
from fluoroscope.defences.guard.held import holds, recognisable, varies
from fluoroscope.defences.guard.isolation import NOTHING, Crowd, Reading, crowd, read, tokens
from fluoroscope.defences.guard.losses import losses, sizes
from fluoroscope.rng import generator

SIZES = ((16, 4), (32, 3), (64, 2), (128, 1))
"""Images in a batch, and how many such batches are drawn: bins for few images show with few."""
PRODUCTS = 10 * 10**9
"""Multiplications of the images that go through the network: about a second. Counted, so verdicts are repeatable."""
FEWEST, LEAST = 4, 16
"""Images that go through any network, and inputs of a layer that can hold a picture."""
MOST_UNWATCHED, MOST_ALONE = 10**8, 32
"""Values of all gradients that are taken image by image; and images of these."""
MOST_KNOWN = 8
"""Tokens, up to which it is asked whether all but one are the same for every image."""
MOST_APART = 4
"""Layers beside each other that are looked at, drawn."""
SLIDING = 8
"""Images that are enough where every layer adds up over places."""


class Leak(NamedTuple):
    """What one product gives away."""

    inputs: int
    """Values that a row of it reads."""
    units: int
    """Rows."""
    held: float
    """How far what it reads holds the picture: 1 for the picture itself, 0 for a few pooled features."""
    shares: Mapping[int, Reading]
    """For batches of so many images, what can be read of them, times `held`."""
    tokens: float = 0.0
    """Share of the rows in which one token, or patch, stands alone."""
    clear: float = 1.0
    """Whether what is read has enough values to recognise somebody by."""
    crowd: Crowd | None = None
    """How the images share its rows; None where its rows are not known."""


@dataclass(frozen=True)
class Profile:
    """A network on one batch: `leaks` stand by the arrays that the weights of a product are made of."""

    leaks: Mapping[str, Leak]
    owned: float
    """The largest share that one image has of the energy that reaches the first product."""
    passed: float
    """Size of the gradient at the first product over that at the network's output."""
    images: int
    class_ratio: float = 1.0
    """How much larger the gradient of the one class that gets most is than that of the next."""

    def numbers(self) -> dict[str, float]:
        """What is kept of it from round to round."""
        whole = [leak.shares[max(leak.shares)] for leak in self.leaks.values() if leak.shares]
        return {
            "isolation": max((reading.apart for reading in whole), default=0.0),
            "sparse rows": max((reading.rows for reading in whole), default=0.0),
            "tokens": max((leak.tokens for leak in self.leaks.values()), default=0.0),
            "owned": self.owned,
            "passed": self.passed,
            "class ratio": self.class_ratio,
            "images": float(self.images),
        }


def prepared(network: nn.Module) -> nn.Module:
    """A copy that can be run as a client trains it: in single precision, batches by their own statistics."""
    made = copy.deepcopy(network).float().train().requires_grad_(False)
    for module in made.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.track_running_stats:
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return made


def profile(network: nn.Module, batch: Batch, seed: int = 0) -> Profile:
    """Run a batch forward and back, and measure what can be read.

    Args:
        network: in single precision, from `prepared`.
        batch: the inputs.
        seed: draws labels, smaller batches, and rows where there are too many of them; the client's own.
    """
    rng = generator(seed, "guard", "profile")
    few = batch.first(FEWEST)
    with torch.random.fork_rng(devices=[]):  # some networks draw numbers, such as those with a latent code
        torch.manual_seed(seed % 2**31)
        watch, out = watched(network, few)
        free = _free(network, {name for seen in watch.seen for name in seen.leaves})
        batch = batch.first(affordable(watch, few.size, bool(free)))
        if batch.size > few.size:
            watch, out = watched(network, batch)
    each = losses(out, batch.size, rng)
    if each is None or not each.requires_grad:
        raise ValueError("nothing that the network returns depends on its input")
    if not watch.seen:
        return Profile(unwatched(network, batch, free, 0, rng), 0.0, 1.0, batch.size)
    total = (each / sizes(each, out)).sum()
    last, first = watch.seen[-1], watch.seen[0]
    found = products(watch, total, batch.size, lambda seen: seen is first or seen is last or not seen.form.slides)
    leaks: dict[str, Leak] = {}
    picture = batch.picture
    for product in found:
        leak = None if product is found[-1] else _leak(product, picture, batch.size, rng)
        if leak is not None:
            leaks[f"{product.name}#{len(leaks)}" if product.name in leaks else product.name] = leak
    leaks |= unwatched(network, batch, free, sum(s.form.work for s in watch.seen) / batch.size, rng)
    return Profile(leaks, *_passed(found, batch.size), batch.size, class_ratio(found[-1], out))


def _free(network: nn.Module, seen: Collection[str]) -> dict[str, nn.Parameter]:
    """Arrays that could hold pictures, and that no watched product uses."""
    return {
        name: value
        for name, value in network.named_parameters()
        if name not in seen and value.ndim >= 2 and len(value) and min(len(value), value[0].numel()) >= LEAST
    }


def unwatched(
    network: nn.Module, batch: Batch, values: Mapping[str, nn.Parameter], work: float, rng: torch.Generator
) -> dict[str, Leak]:
    """The same of arrays that no watched product uses, from every image's own gradient: slow, and blind to nothing."""
    kept = sum(value.numel() for value in values.values())
    most = min(MOST_ALONE, MOST_UNWATCHED // max(kept, 1), max(int(PRODUCTS / max(3 * work, 1)), SLIDING))
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
        if name not in leaks or _most(leak) > _most(leaks[name]):
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


def affordable(watch: Watch, images: int, free: bool = False) -> int:
    """How many images may go through, by the multiplications that one takes."""
    work = sum(seen.form.work for seen in watch.seen) / max(images, 1)
    most = int(PRODUCTS / max(work, 1))
    behind = [seen for seen in watch.seen[:-1] if not seen.form.slides]
    if not behind and not free:
        return max(FEWEST, min(most, SLIDING))
    whole = any(len(seen.made) < 3 or math.prod(seen.made[2:]) == 1 for seen in behind)
    return max(SIZES[0][0] if whole else FEWEST, most)


def _leak(product: Product, picture: Tensor | None, images: int, rng: torch.Generator) -> Leak | None:
    if product.given is None or not product.gradients:
        return None
    places, inputs = product.given.shape[1:]
    units = len(product.weight)
    if inputs >= LEAST and places > 1 and len(product.given) == images:
        if product.apart:
            some = torch.randperm(places, generator=rng)[:MOST_APART].tolist()
            beside = [_leak(_place(product, i), picture, images, rng) for i in some]
            return max((each for each in beside if each is not None), key=_most, default=None)
        vary = [i for i in range(places) if varies(product.given[:, i])] if places <= MOST_KNOWN else []
        if len(vary) == 1:  # the other tokens are the server's own
            return _leak(_place(product, vary[0]), picture, images, rng)
    if places > 1 or len(product.given) != images:
        if inputs < LEAST:
            return None
        flat = distinct([g.reshape(-1, g.shape[-1]) for g in product.gradients])
        alone = max((tokens(rows, rng) for rows in flat), default=0.0)
        return Leak(inputs, units, 1.0, {}, alone)
    given = product.given[:, 0]
    held = 1.0 if product.pixels else holds(given, picture)
    if inputs < LEAST or held == 0 or not varies(given):
        return None
    rows = distinct([gradient.flatten(1) for gradient in product.gradients if gradient.shape[1] == 1])
    clear = 1.0 if product.pixels else recognisable(given, picture)
    together = max(map(crowd, rows), key=lambda each: each.concentration, default=None)
    return Leak(inputs, units, held, drawn(rows, given, images, rng, held), clear=clear, crowd=together)


def _place(product: Product, place: int) -> Product:
    """One of its tokens alone."""
    given, one = product.given, slice(place, place + 1)
    gradients = tuple(g[:, one] for g in product.gradients if given is not None and g.shape[:2] == given.shape[:2])
    return replace(product, given=None if given is None else given[:, one], gradients=gradients, apart=False)


def drawn(
    rows: list[Tensor], given: Tensor, images: int, rng: torch.Generator, held: float = 1.0
) -> dict[int, Reading]:
    """What can be read of smaller batches, drawn from the whole: the mean of several."""
    shares = {}
    for size, repeats in SIZES if images >= SIZES[0][0] else ((images, 1),):
        if size > images:
            continue
        chosen = [torch.randperm(images, generator=rng)[:size] for _ in range(repeats)]
        each = [max((read(r[c], given[c], rng) for r in rows), key=lambda x: x.apart, default=NOTHING) for c in chosen]
        alone, apart = sum(x.alone for x in each) / repeats, sum(x.apart for x in each) / repeats
        shares[size] = Reading(held * alone, held * apart, sum(x.rows for x in each) / repeats)
    return shares


def _most(leak: Leak) -> float:
    return max((reading.apart for reading in leak.shares.values()), default=0.0)


def distinct(gradients: list[Tensor]) -> list[Tensor]:
    """Without those that equal an earlier one: a product's output is often where it bends."""
    kept: list[Tensor] = []
    for each in gradients:
        if not any(each.shape == other.shape and torch.equal(each, other) for other in kept):
            kept.append(each)
    return kept


def _passed(found: list[Product], images: int) -> tuple[float, float]:
    first, last = found[0].gradients, found[-1].gradients
    if not first or not last or len(first[0]) != images or found[0] is found[-1]:
        return 0.0, 1.0
    energy = first[0].double().flatten(1).square().sum(dim=1)
    whole, out = float(energy.sum()), float(last[0].double().square().sum())
    return float(energy.max()) / whole if whole > 0 else 0.0, math.sqrt(whole / out) if out > 0 else 1.0


def class_ratio(last: Product, out: object) -> float:
    """Largest over next largest gradient that a label gives to the features, root mean square over the images."""
    if not isinstance(out, Tensor) or out.ndim != 2 or out.shape[1] < 3 or len(last.weight) != out.shape[1]:
        return 1.0
    weight = last.weight.double()
    chance = out.detach().double().softmax(dim=1)
    products_ = weight @ weight.T
    mixed = chance @ products_
    energy = (mixed * chance).sum(dim=1, keepdim=True) - 2 * mixed + products_.diagonal()
    largest = energy.clamp_min(0).mean(dim=0).sqrt().sort(descending=True).values
    return float(largest[0] / largest[1].clamp_min(1e-30)) if float(largest[0]) > 0 else 1.0


def most(profiles: Sequence[Profile]) -> Profile:
    """The largest that any of several shows."""
    leaks = {}
    for name, leak in profiles[0].leaks.items():
        beside = [other.leaks[name] for other in profiles if name in other.leaks]
        shares = {}
        for size in leak.shares:
            each = [other.shares[size] for other in beside if size in other.shares]
            shares[size] = Reading(max(r.alone for r in each), max(r.apart for r in each), max(r.rows for r in each))
        leaks[name] = leak._replace(shares=shares, tokens=max(other.tokens for other in beside))
    return replace(profiles[0], leaks=leaks, owned=max(other.owned for other in profiles))


def twin(network: nn.Module, seed: int = 0) -> nn.Module:
    """The same layers with fresh weights: what an honest network of this kind gives away before it has learnt."""
    made = copy.deepcopy(network)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator(seed, "guard", "twin").initial_seed() % 2**31)
        for module in made.modules():
            reset = getattr(module, "reset_parameters", None)
            if callable(reset) and not list(module.children()):
                reset()
                continue
            for value in module.parameters(recurse=False):
                if value.ndim > 1:
                    value.data.normal_(0, max(value[0].numel(), 1) ** -0.5)
                elif value.numel():  # thresholds may sit here: a scale starts at one, a shift at zero
                    value.data.fill_(1.0 if float(value.detach().median()) > 0.5 else 0.0)
    return made

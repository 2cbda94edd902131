"""What a server could read out of the gradient of one batch: the numbers that the guard judges by."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fluoroscope.defences.guard.batches import MOST_IMAGES, Batch
from fluoroscope.defences.guard.copied import copied
from fluoroscope.defences.guard.gradient_shares import class_ratio, shares
from fluoroscope.defences.guard.held import holds, recognisable, varies
from fluoroscope.defences.guard.isolation import Reading, awake, crowd, own_row, tokens
from fluoroscope.defences.guard.leak import FEWEST, LEAST, SHORTEST, SIZES, Leak, drawn, largest
from fluoroscope.defences.guard.losses import of_each_output, outputs, sizes
from fluoroscope.defences.guard.products import Product, products, together
from fluoroscope.defences.guard.unwatched import Held, free, unwatched
from fluoroscope.defences.guard.watch import Seen, Watch, watched
from fluoroscope.rng import generator

PRODUCTS = 10 * 10**9
"""Multiplications of the images that go through the network: about a second. Counted, so verdicts are repeatable."""
MOST_KNOWN = 8
"""Tokens, up to which it is asked whether all but one are the same for every image."""
MOST_APART = 4
"""Layers beside each other that are looked at: those whose rows have the fewest images."""
MOST_SUMMED, CHEAP = 32, 2 * 10**8
"""Images whose own gradients are put together where several tokens of each add up in a row; twice as many where that
takes no more multiplications than so many."""
OVERLAPPING = 8
"""Share of the multiplications, as a divisor, for convolutions on few places: most networks of hospitals have some."""
MOST_OUTPUTS = 3
"""Of a network with more, such as one with deep supervision, all outputs are trained together."""
NOTHING_ELSE = 128
"""Images whose own gradients are taken where there is nothing else to judge by."""
SLIDING = 8
"""Images that are enough where every layer adds up over places."""


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
    owned_of_few: float = 0.0
    """The largest share that one image has in a small batch, on the mean."""
    highest: float = math.inf
    """The largest value that the network returned for any image; of its first output, if it has several."""

    def numbers(self) -> dict[str, float]:
        """What is kept of it from round to round."""
        whole = [leak.shares[max(leak.shares)] for leak in self.leaks.values() if leak.shares]
        return {
            "isolation": max((reading.apart for reading in whole), default=0.0),
            "sparse rows": max((reading.rows for reading in whole), default=0.0),
            "tokens": max((leak.tokens for leak in self.leaks.values()), default=0.0),
            "owned": self.owned,
            "owned of few": self.owned_of_few,
            "passed": self.passed,
            "class ratio": self.class_ratio,
            "images": float(self.images),
        }


Other = Callable[[], Profile | None]
"""Of a network that is looked at only where that decides."""


def prepared(network: nn.Module) -> nn.Module:
    """A copy that can be run as a client trains it: in single precision, batches by their own statistics."""
    made = copied(network).float().train().requires_grad_(False)
    for module in made.modules():
        # One that stays as it is in training, as frozen norms do, divides by what the server sent.
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.track_running_stats and module.training:
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
        pixels = few.picture[0].numel() if few.picture is not None else 0
        hidden = free(network, watch.seen, watch.otherwise, pixels)
        batch = batch.first(affordable(watch, few.size, bool(hidden)))
        if batch.size > few.size:
            watch, out = watched(network, batch)
    parts = of_each_output(out, batch.size, rng)
    each = torch.stack(parts).sum(dim=0) if parts else None
    if each is None or not each.requires_grad or not watch.seen:
        return _each_alone(network, batch, hidden, rng)
    total = (each / sizes(each, out)).sum()
    ratio = class_ratio(watch, watch.seen[-1].form.matrix(watch.seen[-1].weight), out)
    last, first = watch.seen[-1], watch.seen[0]

    def chosen(seen: Seen) -> bool:
        return seen is first or seen is last or seen.pixels or not seen.form.slides

    try:
        found = products(watch, total, batch.size, chosen)
        for part in parts if 1 < len(parts) <= MOST_OUTPUTS else ():
            found = together(found, products(watch, part.sum(), batch.size, chosen))
    except (RuntimeError, IndexError):  # a product that is called as nobody foresaw
        return _each_alone(network, batch, free(network, (), (), pixels), rng)
    leaks: dict[str, Leak] = {}
    pictures = batch.pictures
    for product in found:
        head = product is found[-1] and len(product.weight) < LEAST
        leak = None if head else _leak(product, pictures, batch.size, rng)
        if leak is not None:
            leaks[f"{product.name}#{len(leaks)}" if product.name in leaks else product.name] = leak
    work = (sum(seen.form.work for seen in watch.seen) + watch.otherwise_work) / batch.size
    leaks |= unwatched(network, batch, hidden, max(PRODUCTS / max(3 * work, 1), SLIDING), rng)
    own = shares(found, batch.size, rng)
    highest = float(outputs(out)[0].detach().max())
    return Profile(leaks, own.owned, own.passed, batch.size, ratio, own.owned_of_few, highest)


def _each_alone(network: nn.Module, batch: Batch, held: Mapping[str, Held], rng: torch.Generator) -> Profile:
    """What can be said where no product can be followed, as behind a detached input: by every image's own gradient.

    Raises:
        ValueError: there is no such gradient either.
    """
    leaks = unwatched(network, batch, held, MOST_IMAGES**2, rng, NOTHING_ELSE)
    if not leaks:
        raise ValueError("nothing that the network returns depends on its input")
    return Profile(leaks, 0.0, 1.0, batch.size)


def affordable(watch: Watch, images: int, free: bool = False) -> int:
    """How many images may go through, by the multiplications that one takes."""
    work = sum(seen.form.work for seen in watch.seen) / max(images, 1)
    most = int(PRODUCTS / max(work, 1))
    behind = [s for s in watch.seen if not s.form.slides and (s is not watch.seen[-1] or len(s.weight) >= LEAST)]
    if all(seen.form.overlaps for seen in behind) and not free:
        return max(FEWEST, min(most, SLIDING), min(most // OVERLAPPING, MOST_SUMMED))
    whole = any(len(seen.made) < 3 or math.prod(seen.made[2:]) == 1 for seen in behind)
    return max(SIZES[0][0] if whole else FEWEST, most)


def _leak(product: Product, pictures: tuple[Tensor, ...], images: int, rng: torch.Generator) -> Leak | None:
    if product.given is None or not product.gradients:
        return None
    places, inputs = product.given.shape[1:]
    units = len(product.weight)
    if inputs >= LEAST and places > 1 and len(product.given) == images:
        if product.apart:
            beside = [each for i in range(places) if (each := _place(product, i)).gradients]
            beside.sort(key=lambda each: crowd(each.gradients[0].flatten(1)).concentration, reverse=True)
            leaks = [_leak(each, pictures, images, rng) for each in beside[:MOST_APART]]
            return max((leak for leak in leaks if leak is not None), key=largest, default=None)
        vary = [i for i in range(places) if varies(product.given[:, i])] if places <= MOST_KNOWN else []
        if len(vary) == 1:  # the other tokens are the server's own
            return _leak(_place(product, vary[0]), pictures, images, rng)
    if places > 1 or len(product.given) != images:
        if inputs < LEAST:
            return None
        if product.overlaps:
            return _summed(product, pictures, images, rng)
        flat = distinct([g.reshape(-1, g.shape[-1]) for g in product.gradients])
        alone = max((tokens(rows, rng) for rows in flat), default=0.0)
        return replace(_summed(product, pictures, images, rng), tokens=alone)
    given = product.given[:, 0]
    held = 1.0 if product.pixels else holds(given, pictures)
    if inputs < _least(product, pictures) or held == 0 or not varies(given):
        return None
    rows = [awake(gradient.flatten(1), product.weight) for gradient in product.gradients if gradient.shape[1] == 1]
    rows = distinct(rows)
    clear = 1.0 if product.pixels else recognisable(given, pictures)
    most_alone = max(map(crowd, rows), key=lambda each: each.concentration, default=None)
    shares_ = drawn(rows, given, images, rng, held)
    if inputs < LEAST:  # a short row is near to a mixture of few others by chance, in small batches
        shares_ = {size: reading for size, reading in shares_.items() if size == max(shares_)}
    beyond = product.undone and bool(product.beyond)
    return Leak(inputs, units, held, shares_, 0.0, clear, most_alone, product.undone, beyond, product.weight)


def _least(product: Product, pictures: tuple[Tensor, ...]) -> int:
    """Inputs that a layer must have to count: a patient's whole row of a table counts, however short it is."""
    whole = LEAST if not pictures or pictures[0].ndim != 2 else pictures[0].shape[1]
    return max(SHORTEST, min(LEAST, whole)) if product.pixels else LEAST


def _summed(product: Product, pictures: tuple[Tensor, ...], images: int, rng: torch.Generator) -> Leak:
    """What rows show where several tokens of an image add up in each: by the image's own gradient, as a whole."""
    given, gradients = product.given, product.gradients[0]
    nothing = Leak(0 if given is None else given.shape[2], len(product.weight), 1.0, {})
    if given is None or len(given) != images or gradients.shape[:2] != given.shape[:2]:
        return nothing
    each = given[0].numel() * gradients.shape[2]
    count = min(images, MOST_SUMMED if each * MOST_SUMMED > CHEAP else 2 * MOST_SUMMED)
    if count * each > PRODUCTS:
        return nothing
    pairs = [own_row(g.T @ read, g.sum(dim=0)) for g, read in zip(gradients[:count], given[:count], strict=True)]
    main, weights = (torch.stack(part) for part in zip(*pairs, strict=True))
    heard = weights.abs().amax(dim=1) > 0  # an image that no row is awake for shows nothing, and is in nobody's way
    if int(heard.sum()) < FEWEST:
        return nothing
    held = 1.0 if product.pixels else holds(main[heard], tuple(picture[:count][heard] for picture in pictures))
    if held == 0 or not varies(main):
        return nothing
    shares = drawn([weights], main, count, rng, held)
    return replace(nothing, held=held, shares=shares, crowd=crowd(weights))


def _place(product: Product, place: int) -> Product:
    """One of its tokens alone."""
    given, one = product.given, slice(place, place + 1)
    gradients = tuple(g[:, one] for g in product.gradients if given is not None and g.shape[:2] == given.shape[:2])
    return replace(product, given=None if given is None else given[:, one], gradients=gradients, apart=False)


def distinct(gradients: list[Tensor]) -> list[Tensor]:
    """Without those that equal an earlier one: a product's output is often where it bends."""
    kept: list[Tensor] = []
    for each in gradients:
        if not any(each.shape == other.shape and torch.equal(each, other) for other in kept):
            kept.append(each)
    return kept


def most(profiles: Sequence[Profile]) -> Profile:
    """The largest that any of several shows."""
    leaks = {}
    for name, leak in profiles[0].leaks.items():
        beside = [other.leaks[name] for other in profiles if name in other.leaks]
        shares = {}
        for size in leak.shares:
            each = [other.shares[size] for other in beside if size in other.shares]
            shares[size] = Reading(max(r.alone for r in each), max(r.apart for r in each), max(r.rows for r in each))
        leaks[name] = replace(leak, shares=shares, tokens=max(other.tokens for other in beside))
    owned, of_few = max(other.owned for other in profiles), max(other.owned_of_few for other in profiles)
    return replace(profiles[0], leaks=leaks, owned=owned, owned_of_few=of_few)


def twin(network: nn.Module, seed: int = 0) -> nn.Module:
    """The same layers with fresh weights: what an honest network of this kind gives away before it has learnt."""
    made = copied(network)
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

"""Staircases: units whose firing sets lie one inside the other, each a little smaller than the last.

That is how bins work (P2 section IV, Robbing the Fed): the difference of two neighbouring units holds one image. The
evidence is taken from behaviour, so a new order, a scale for each unit, or some noise hide nothing: two units stand on
one staircase if their firing sets are nested (Loevinger's H, as in Guttman scales). Images that differ mostly in
brightness are sorted alike by any weights; therefore a staircase counts only in a layer of few directions.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fluoroscope.defences.guard.layers import Layer
from fluoroscope.defences.guard.numbers import DROWNS, uneven
from fluoroscope.defences.guard.repetition import columns, concentration
from fluoroscope.defences.guard.verdict import Reason
from fluoroscope.rng import generator

FEW_DIRECTIONS = 0.92
"""Share of the energy. Noise of a quarter of a row's norm leaves .94; honest training leaves more of its start."""
NESTED, STRICTLY = 0.9, 0.97
STEPS = 6
"""Different heights that make a staircase."""
SHARE, HALF, MOST = 0.2, 0.5, 0.7
"""Of the units that must stand on one; more of them where the other evidence is weaker."""
PARALLEL = 0.985
"""Cosine of two units of a family; noise of a tenth of the norm leaves .99."""
FEW_IN_SPAN = 0.985
MOST_MEMBERS = 512
APART, COINCIDE = 3.0, 0.003
FEWEST, SMALLEST_FAMILY = 8, 10
MOST_UNITS = 192
EDGE = 0.02
"""A unit divides the images if it fires for more than this share of them, and not for more than all but this."""


@dataclass(frozen=True)
class Stairs:
    """What the units of a layer do with images."""

    share: float
    """Of the units that stand on a staircase of at least STEPS heights."""
    steps: int
    """Heights of the tallest."""


def staircase(layer: Layer) -> list[Reason]:
    """Refuses units of few directions that divide the images step by step: all of a layer, or a family in it."""
    if layer.units < FEWEST or layer.inputs < FEWEST or not layer.seen:
        return []
    if layer.deep and uneven(layer.weight) > DROWNS:
        return []  # deep in a model that has diverged, the units that were left alive drive all others
    scales = [10.0 ** (power / 2) for power in range(-6, 7)] if layer.imagined else [1.0]
    sums = [s * (seen @ layer.weight.T) + layer.bias for seen in layer.seen for s in scales]
    few = concentration(layer.weight, FEW_DIRECTIONS, seed=layer.seed)
    if few >= FEW_DIRECTIONS and set_apart(layer, layer.weight):
        found = max((stairs(some) for some in sums), key=lambda s: s.share)
        if found.share >= (HALF if layer.deep and layer.each == "image" else SHARE):
            return [_reason(layer, found, few, 1.0)]
    members = family(layer.weight, layer.seed)
    if (
        not layer.deep
        and len(members) >= max(SMALLEST_FAMILY, layer.units // 20)
        and set_apart(layer, layer.weight[members], members)
    ):
        found = max((stairs(some[:, members], STRICTLY) for some in sums), key=lambda s: s.share)
        # Units that training has made parallel switch at about one place; bins at as many as there are units.
        if found.share >= MOST and found.steps >= min(len(members) // 2, 16):
            return [_reason(layer, found, few, len(members) / layer.units)]
    if layer.deep or layer.imagined:
        return []
    for seen, some in zip(layer.seen, sums, strict=True):
        # Weights on pixels that are always black hide the pattern from the first test, but change nothing.
        visible = layer.weight @ span(seen)
        few, found = concentration(visible, FEW_IN_SPAN, seed=layer.seed), stairs(some, STRICTLY)
        if few >= FEW_IN_SPAN and found.share >= MOST and set_apart(layer, visible):
            return [_reason(layer, found, few, 1.0)]
    return []


def set_apart(layer: Layer, rows: Tensor, members: Tensor | None = None) -> bool:
    """Whether something was done to tell parallel units apart: thresholds far from each other, or one more direction.

    Where training has made units parallel, their biases have moved with them. Their thresholds then differ by what is
    left of the start: on pixels 1/sqrt(inputs) of a norm, elsewhere next to nothing of what the images differ by.
    """
    chosen = slice(None) if members is None else members
    bias, norms = layer.bias[chosen].double(), layer.weight[chosen].double().norm(dim=1).clamp_min(1e-30)
    natural = layer.inputs**-0.5
    if float((bias / norms).abs().median()) < 0.1 * natural:
        return True  # unused: the thresholds stand in the weights, as those of ratios do
    directions = F.normalize(rows[:MOST_MEMBERS].double(), dim=1)  # some are enough to find the main direction by
    _, vectors = torch.linalg.eigh(directions @ directions.T)
    main = F.normalize(directions.T @ vectors[:, -1], dim=0)
    along = rows.double() @ main
    apart = _middle(bias / torch.where(along == 0, torch.inf, along))
    if layer.pixels:
        rest = rows.double() - along[:, None] * main
        return apart > APART * natural or concentration(rest) > 0.95
    if layer.imagined or rows.shape[1] != layer.inputs:
        return True
    return any(apart > COINCIDE * _middle(seen.double() @ main) for seen in layer.seen)


def _middle(values: Tensor) -> float:
    """The range of the middle half."""
    ordered = values.sort().values
    return float(ordered[3 * len(values) // 4] - ordered[len(values) // 4])


def _reason(layer: Layer, found: Stairs, few: float, part: float) -> Reason:
    return Reason(
        "staircase",
        layer.name,
        "refuse",
        f"The units of {layer.name} form a staircase: many measure nearly the same thing, and {found.share * part:.0%} "
        f"of them divide the images at {found.steps} rising levels. The difference of two neighbours then holds a "
        "single patient's image, which the server can read out of the update.",
        {"share of units on a staircase": found.share * part, "levels": found.steps, "energy in few directions": few},
    )


def family(weight: Tensor, seed: int = 0) -> Tensor:
    """The largest set of units whose weights point (nearly) the way of one of them, or the opposite way."""
    norms = weight.norm(dim=1)
    whole = torch.nonzero(norms > 1e-6 * norms.max().clamp_min(1e-30)).flatten()
    if len(whole) > MOST_MEMBERS:
        whole = whole[
            torch.randperm(len(whole), generator=generator(seed, "guard", "family", len(whole)))[:MOST_MEMBERS]
        ]
    rows = F.normalize(columns(weight[whole], seed), dim=1)
    alike = (rows @ rows.T).abs() > PARALLEL
    return whole[alike[alike.sum(dim=1).argmax()]] if len(whole) else whole


def span(seen: Tensor) -> Tensor:
    """An orthonormal basis of what images differ by, (inputs, directions): the main ones, all counted alike."""
    differences = seen - seen.mean(dim=0)
    energies, vectors = torch.linalg.eigh(differences @ differences.T)
    kept = energies > 1e-6 * energies[-1].clamp_min(1e-30)
    kept[: -len(seen) // 2] = False
    basis = differences.T @ vectors[:, kept]
    scaled: Tensor = basis / basis.norm(dim=0).clamp_min(1e-30)
    return scaled


def stairs(sums: Tensor, nested: float = NESTED) -> Stairs:
    """From what the units make of images, (images, units), before the rectifier."""
    fires = (sums > 0).double()
    rate = fires.mean(dim=0)
    dividing = torch.nonzero((rate > EDGE) & (rate < 1 - EDGE)).flatten()
    share = len(dividing) / sums.shape[1]
    if len(dividing) > MOST_UNITS:
        order = torch.randperm(len(dividing), generator=generator(0, "guard", "stairs", len(dividing)))
        dividing = dividing[order[:MOST_UNITS]]
    if len(dividing) < STEPS:
        return Stairs(0.0, 0)
    fires = fires[:, dividing]
    beside = (nestedness(fires) >= nested).double()
    heights = F.one_hot(fires.sum(dim=0).long(), len(fires) + 1).double()
    steps = ((beside @ heights) > 0).sum(dim=1)
    return Stairs(share * float((steps >= STEPS).double().mean()), int(steps.max()))


def nestedness(fires: Tensor) -> Tensor:
    """Loevinger's H of every pair of columns of zeros and ones: 1 where one set lies in the other or beside it.

    One minus the images in the emptiest cell of the pair's two by two table, over what independent units would have
    there. A unit turned round (fires below its threshold) is on the same staircase.
    """
    n = len(fires)
    both = fires.T @ fires / n
    p = fires.mean(dim=0)
    p, q = p[:, None], p[None, :]
    cells = torch.stack([both, p - both, q - both, 1 - p - q + both])
    chance = torch.stack([p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)])
    h = (1 - cells.clamp_min(0) / chance.clamp_min(1e-12)).amax(dim=0)
    return h.fill_diagonal_(1.0)

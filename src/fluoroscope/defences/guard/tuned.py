"""Weights and biases that were set so that a unit fires for few images: trap weights and tuned biases."""

import math

import torch
from torch import Tensor

from fluoroscope.defences.guard.layers import Layer
from fluoroscope.defences.guard.repetition import concentration, sample
from fluoroscope.defences.guard.verdict import Reason

FEWEST, SHORTEST = 16, 64
EXPLAINED, OPPOSED, PARALLEL = 0.75, -0.5, 0.15
UNIFORM = 0.4
"""Variance of a count over rows, in units of what chance gives: chance itself stays above .5 for 64 rows."""


def tuned(layer: Layer) -> list[Reason]:
    """Refuses what chance and training do not make."""
    if layer.last or layer.units < FEWEST or layer.inputs < SHORTEST:
        return []
    return [*_trap(layer), *_one_sided(layer), *_biases(layer)]


def _trap(layer: Layer) -> list[Reason]:
    """Boenisch et al. 2021: in every row half the weights are negative, and the positive ones a little smaller."""
    rows = sample(layer.weight, layer.seed)
    weights = (rows != 0).sum(dim=1)
    if float(weights.double().median()) < 0.5 * rows.shape[1] or float(weights.double().min()) < 8:
        return []  # pruned
    negative = (rows < 0).double().sum(dim=1) / weights
    spread = float(((negative - 0.5) ** 2 * 4 * weights).mean())  # 1 where signs are drawn
    sizes = torch.stack([_mean(rows.clamp_min(0)), _mean((-rows).clamp_min(0))])
    ratio = float((sizes[0] / sizes[1].clamp_min(1e-30)).median())
    if spread > limit(len(rows)) or ratio > 0.995 or ratio < 0.3:
        return []
    return [
        Reason(
            "trap weights",
            layer.name,
            "refuse",
            f"In {layer.name} every unit has exactly as many negative weights as positive ones, and the positive ones "
            f"are {1 - ratio:.0%} smaller: so-called trap weights. Such a unit fires for very few images, and hands "
            "over an image that it fires for alone.",
            {"spread of signs (chance: 1)": spread, "positive over negative size": ratio},
        )
    ]


def limit(rows: int) -> float:
    """Below this, chance does not go: five standard deviations of a chi-square mean, at most UNIFORM."""
    return min(UNIFORM, max(1 - 5 * math.sqrt(2 / rows), 0.05))


def _mean(values: Tensor) -> Tensor:
    return values.sum(dim=1) / (values > 0).sum(dim=1).clamp_min(1)


def _one_sided(layer: Layer) -> list[Reason]:
    """Weights that were turned negative one by one: none above zero, yet many right below it."""
    values = sample(layer.weight, layer.seed).flatten()
    values = values[values != 0]
    if len(values) < SHORTEST * FEWEST:
        return []
    for sign, what in ((1, "negative"), (-1, "positive")):
        beyond = float((sign * values > 0).double().mean())
        close = float((values.abs() < 0.1 * values.abs().median()).double().mean())
        # A shifted distribution that hardly reaches zero is thin there; one folded over at zero is at its densest.
        if beyond < 0.002 and close > 0.02:
            sentence = (
                f"All weights of {layer.name} are {what}, and many of them only just: they were folded over at zero, "
                "which training does not do. On images, which are never negative, all its units are then shut or all "
                "open, and a server can use that to blank out every client but one."
            )
            return [Reason("one-sided weights", layer.name, "refuse", sentence, {"share close to zero": close})]
    return []


def _biases(layer: Layer) -> list[Reason]:
    """Quantile biases (Nowak et al. 2024): each is minus what its own weights make of a typical image.

    A bias that was drawn or trained knows nothing of that. So the biases are predicted from the weights' sums over the
    main components of the images.
    """
    if layer.imagined or not layer.seen or float(layer.bias.std()) == 0:
        return []
    found = min((_prediction(layer, seen) for seen in layer.seen), key=lambda f: f[1])
    explained, slope = found
    if (
        explained < EXPLAINED
        or slope > OPPOSED
        or concentration(layer.weight, directions=1, seed=layer.seed) > PARALLEL
    ):
        return []  # of parallel rows anything can be predicted
    return [
        Reason(
            "tuned biases",
            layer.name,
            "refuse",
            f"The biases of {layer.name} were tuned to pictures: each cancels what its unit makes of a typical image "
            f"({explained:.0%} of them is explained by that). Such units fire for few images each, and hand over an "
            "image that they fire for alone.",
            {"explained": explained, "correlation with the typical image": slope},
        )
    ]


def _prediction(layer: Layer, seen: Tensor) -> tuple[float, float]:
    """Share of the biases' variance that is explained, and their correlation with the sums over the mean image."""
    norms = layer.weight.norm(dim=1).clamp_min(1e-30)
    weight, bias = layer.weight / norms[:, None], (layer.bias / norms).double()  # so that no unit counts for many
    mean = seen.mean(dim=0)
    components = min(6, layer.units // 8)
    differences = seen - mean
    _, vectors = torch.linalg.eigh(differences @ differences.T)
    main = weight @ (differences.T @ vectors[:, -components:])
    known = torch.stack([weight @ mean, *main.T, torch.ones(layer.units)], dim=1).double()
    scale = known.norm(dim=0).clamp_min(1e-30)
    fitted = known / scale @ torch.linalg.lstsq(known / scale, bias[:, None], driver="gelsd").solution
    left = float((bias - fitted[:, 0]).var() / bias.var())
    sums = known[:, 0]
    if float(sums.std()) < 1e-9 * float(sums.abs().max()):
        return 0.0, 0.0
    return 1 - left, float(torch.corrcoef(torch.stack([bias, sums]))[0, 1])

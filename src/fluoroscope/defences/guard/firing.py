"""Units that no image can wake, or none can silence, because their bias says so.

P2's server sends a dead model to everyone but the victim. Honest units die too, by too large a step: then their weights
point away from the images. Here the weights would fire, and the bias forbids it.
"""

import torch
from torch import Tensor

from fluoroscope.defences.guard.layers import Layer
from fluoroscope.defences.guard.repetition import by_chance, concentration
from fluoroscope.defences.guard.verdict import Reason
from fluoroscope.types import State

FEWEST = 8
DOMINATES = 8.0
"""Bias over the norm of the weights. Initialisation gives less than 2, training a bias moves less than its weights."""
BEYOND = 3.0
"""Times what a start and training on these inputs can give."""
SHUT = 4.0
"""Standard deviations: a normalised channel with a shift this far below zero fires for 1 value in 30,000."""


def firing(layer: Layer) -> list[Reason]:
    """Refuses a layer that its biases have shut, and notes units that never or always fire."""
    if layer.last or layer.imagined or layer.units < FEWEST or not layer.seen:
        return []
    reasons: list[Reason] = []
    seen = layer.seen[0]
    weighted = seen @ layer.weight.T
    fires = (weighted + layer.bias > 0).double().mean(dim=0)
    dead, always = float((fires == 0).double().mean()), float((fires == 1).double().mean())
    would_fire = (weighted > 0).double().mean(dim=0) > 0.5
    beyond = -layer.bias > _plausible(layer, seen) if dead > 0.98 else fires < 0
    shut = float(((fires == 0) & would_fire & beyond).double().mean())
    numbers = {"share of units that never fire": dead, "share that always fire": always, "share shut by bias": shut}
    if dead > 0.98 and shut > 0.2:
        sentence = (
            f"No {layer.each} wakes a single unit of {layer.name}: its biases hold it shut, though its weights would "
            "fire. A server that sends this to all clients but one reads that one's update out of the secure sum."
        )
        reasons.append(Reason("firing", layer.name, "refuse", sentence, numbers))
    elif dead + always > 0.9:
        sentence = (
            f"{dead:.0%} of the units of {layer.name} fire for no {layer.each} and {always:.0%} for every one; "
            "that happens after too large a learning rate, and little can be learnt from here."
        )
        reasons.append(Reason("firing", layer.name, "note", sentence, numbers))
    return reasons


def _plausible(layer: Layer, seen: Tensor) -> Tensor:
    """The largest bias that a random start and training on these inputs can give each unit.

    How far the weights have moved from their start shows in their concentration; the bias has moved 1/|x| of that.
    """
    length = max(float(seen.norm(dim=1).median()), 1e-6)
    moved = max(concentration(layer.weight, seed=layer.seed) - by_chance(layer.units, layer.inputs), 0.0) ** 0.5
    most: Tensor = layer.weight.norm(dim=1) * BEYOND * max(moved / length, 2 / layer.inputs**0.5)
    return most


def silence(state: State) -> list[Reason]:
    """Refuses biases that drown their weights, and normalised channels shifted to where no rectifier passes them."""
    reasons = []
    head = next((name for name in reversed(list(state)) if state[name].ndim == 2), None)
    for name, weight in state.items():
        if name == head:
            continue  # a bias that all classes share shuts nothing, and one that they do not is the classifier's
        bias = state.get(f"{name.removesuffix('weight')}bias") if name.endswith("weight") else None
        if bias is None or bias.shape != (len(weight),) or len(bias) < FEWEST or not weight.is_floating_point():
            continue
        layer = name.removesuffix(".weight")
        if weight.ndim == 1:
            # At their start, or out of all proportion: the scales of channels that training has killed lie apart.
            alike = float(weight.std()) < 0.1 * float(weight.abs().mean()) or not weight.any()
            alike = alike or float(-bias.max()) > 50 * float(weight.abs().max())
            share = float((bias < -SHUT * weight.abs() - 1e-3).double().mean()) * alike
            what = "has shifted every channel below what a rectifier passes"
        else:
            share = float((bias.abs() > DOMINATES * weight.flatten(1).norm(dim=1)).double().mean())
            what = "has biases that drown whatever its weights say"
        if share > (0.99 if weight.ndim == 1 else 0.9) and bool(torch.isfinite(bias).all()):
            sentence = (
                f"{layer} {what}: no image can change what it passes on. A server that sends this to all clients but "
                "one reads that one's update out of the secure sum."
            )
            reasons.append(Reason("firing", layer, "refuse", sentence, {"share of units": share}))
    return reasons

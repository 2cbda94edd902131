"""Fishing (Wen et al. 2022): a last layer that gives all the gradient to one class, or to one side of a feature."""

from torch import Tensor

from fluoroscope.defences.guard.layers import Layer
from fluoroscope.defences.guard.verdict import Reason

FEWEST_INPUTS = 8
SHRUNK = 0.05
"""A norm below any initialisation's; a softmax that trains one row moves the others by at least 1/classes of that."""
FORCED = 8.0
"""Logits: a lead of e^8 that no image has a say in. A class that is one in three thousand has as much by right."""


def classifier(layer: Layer) -> list[Reason]:
    """Refuses a last layer whose answer was fixed beforehand for all classes but one."""
    if not layer.last or layer.units < 2 or layer.inputs < FEWEST_INPUTS:
        return []
    norms = layer.weight.norm(dim=1)
    largest = float(norms.max())
    if largest == 0:
        return []  # a head that starts at zero is a usual way to begin
    reasons = []
    kept = layer.weight[norms > 0]
    pruned = float((kept == 0).double().mean()) > 0.3  # takes whole rows of a small head with it
    empty = float(((norms < largest / (10 * layer.units)) & (norms < SHRUNK)).double().mean())
    entry = float(layer.weight.square().max() / layer.weight.square().sum())
    lead = float(layer.bias.max() - layer.bias.min())
    if empty > 0 and not (pruned and len(kept) > 1):
        what = f"{empty:.0%} of the classes have next to no weights, while others have"
        reasons.append(_reason(layer, what, {"share of empty classes": empty}))
    elif entry > 0.95:
        reasons.append(_reason(layer, "a single weight decides everything", {"energy of one weight": entry}))
    if lead > max(FORCED, 5 * _own_say(layer.weight, () if layer.imagined else layer.seen)):
        what = f"the biases alone put one class {lead:.0f} logits before another, whatever the image shows"
        reasons.append(_reason(layer, what, {"lead by bias": lead}))
    return reasons


def _own_say(weight: Tensor, seen: tuple[Tensor, ...]) -> float:
    """By how much the images move the logits; where no image is at hand, as much as values of size 1 would."""
    if not seen:
        return float(weight.norm(dim=1).max())
    return max(float((some @ weight.T).std(dim=0).max()) if len(some) > 1 else 0.0 for some in seen)


def _reason(layer: Layer, what: str, numbers: dict[str, float]) -> Reason:
    return Reason(
        "classifier",
        layer.name,
        "refuse",
        f"In the last layer {layer.name}, {what}. All of the update then comes from one class or kind of image: the "
        "server fishes a single patient out of a large batch.",
        numbers,
    )

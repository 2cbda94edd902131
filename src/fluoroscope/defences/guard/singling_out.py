"""How many of the client's own images a layer would hand over by itself: those that are alone in a unit."""

from torch import Tensor

from fluoroscope.defences.guard.layers import Layer
from fluoroscope.defences.guard.verdict import Reason

FEWEST = 8


def alone(sums: Tensor) -> float:
    """The share of images that some unit fires for and for no other, from (images, units) before the rectifier."""
    fires = sums > 0
    return float(fires[:, fires.sum(dim=0) == 1].any(dim=1).double().mean())


def neighbours(sums: Tensor) -> float:
    """The share that is alone in a unit or in the difference of two units next to each other by size."""
    fires = sums > 0
    ordered = fires[:, fires.sum(dim=0).argsort(stable=True)]
    differences = ordered[:, 1:] ^ ordered[:, :-1]
    single = differences[:, differences.sum(dim=0) == 1].any(dim=1) | fires[:, fires.sum(dim=0) == 1].any(dim=1)
    return float(single.double().mean())


def singling_out(layer: Layer) -> list[Reason]:
    """Notes the share; honest dense layers on pixels single out some images too, so it refuses nothing by itself."""
    if layer.last or layer.imagined or not layer.seen or layer.each != "image" or len(layer.seen[0]) < FEWEST:
        return []
    sums = layer.seen[0] @ layer.weight.T + layer.bias
    share, paired = alone(sums), neighbours(sums)
    if share < 0.1:
        return []
    sentence = (
        f"In one batch of {len(sums)} images, {share:.0%} would each be the only one that some unit of {layer.name} "
        "fires for; an honest server could read those as well. Smaller updates (more images a step) or noise help."
    )
    measured = {"share alone in a unit": share, "share alone in a unit or a difference": paired}
    return [Reason("singling out", layer.name, "note", sentence, measured)]

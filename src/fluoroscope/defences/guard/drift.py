"""Drift: layers that were added, taken away or reshaped since the model was agreed on, and single ones that moved away.

Training moves all layers of a network by about as much, measured in their own size. Where one layer of weights was
replaced and all others are as they were agreed on, somebody has put it there.
"""

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from fluoroscope.defences.guard.numbers import strange
from fluoroscope.defences.guard.verdict import Reason
from fluoroscope.types import State

FEWEST, FAR = 3, 0.5
"""Arrays that make a comparison, and a move in units of an array's size that training needs many rounds for."""
COUNTER = "num_batches_tracked"
"""Files from before torch 0.4.1 have none, and it decides nothing."""


def drift(state: State, agreed: State) -> list[Reason]:
    """Refuses any difference of names or shapes, and notes single layers that were replaced."""
    mine, theirs = _shapes(state), _shapes(agreed)
    added = [name for name in mine if name not in theirs]
    removed = [name for name in theirs if name not in mine]
    known = [name for name in mine if mine[name] is not None and theirs.get(name) is not None]
    reshaped = [name for name in known if mine[name] != theirs[name]]
    reasons = []
    if added:
        reasons.append(_reason(added, "has layers that were not agreed", "added arrays"))
    if removed:
        reasons.append(_reason(removed, "lacks layers that were agreed", "missing arrays"))
    if reshaped:
        detail = f"{reshaped[0]} is {mine[reshaped[0]]} instead of {theirs[reshaped[0]]}"
        reasons.append(_reason(reshaped, f"has layers of another shape ({detail})", "reshaped arrays"))
    return reasons or _replaced(state, agreed)


def moved(state: State, agreed: State) -> dict[str, float]:
    """How far each array of weights is from the agreed one, in units of the agreed one's size."""
    found = {}
    for name, value in state.items():
        other = agreed.get(name)
        if other is None or strange(value) or strange(other):
            continue  # there are no numbers to compare
        if other.shape != value.shape or value.ndim < 2 or not value.is_floating_point():
            continue
        size = float(other.float().norm())
        found[name] = float((value.float() - other.float()).norm()) / size if size > 0 else 0.0
    return found


def _replaced(state: State, agreed: State) -> list[Reason]:
    far = moved(state, agreed)
    if len(far) < FEWEST:
        return []
    values = torch.tensor(list(far.values()))
    if not bool(torch.isfinite(values).all()):
        return []
    middle = float(values.median())
    gone = [name for name, value in far.items() if value > max(FAR, 50 * middle)]
    if not gone or len(gone) > len(far) // 3:
        return []
    return [
        Reason(
            "moved",
            gone[0].rpartition(".")[0],
            "note",
            f"{', '.join(gone[:3])} are further from what was agreed than half their size, and the other layers are "
            "where they were: training moves all of them.",
            {"largest move": max(far.values()), "median move": middle},
        )
    ]


def _shapes(state: State) -> dict[str, tuple[int, ...] | None]:
    def shape(value: Tensor) -> tuple[int, ...] | None:  # a layer that is not initialised has none yet
        return None if is_lazy(value) else tuple(getattr(value, "shape", ()))

    return {name: shape(value) for name, value in state.items() if not name.endswith(COUNTER)}


def _reason(names: list[str], what: str, number: str) -> Reason:
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return Reason(
        "drift",
        names[0].rpartition(".")[0],
        "refuse",
        f"The model {what}: {', '.join(names[:3])}{rest}. Nobody has vouched for what they send back, so do not train "
        "it before the federation has agreed on the change.",
        {number: len(names)},
    )

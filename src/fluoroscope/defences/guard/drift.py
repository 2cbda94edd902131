"""Architecture drift: layers that were added, taken away or reshaped since the model was agreed on."""

from torch import Tensor

from fluoroscope.defences.guard.verdict import Reason
from fluoroscope.types import State

COUNTER = "num_batches_tracked"
"""Files from before torch 0.4.1 have none, and it decides nothing."""


def drift(state: State, agreed: State) -> list[Reason]:
    """Refuses any difference of names or shapes; numbers may change, that is what training does."""
    mine, theirs = _shapes(state), _shapes(agreed)
    added = [name for name in mine if name not in theirs]
    removed = [name for name in theirs if name not in mine]
    reshaped = [name for name in mine if name in theirs and mine[name] != theirs[name]]
    reasons = []
    if added:
        reasons.append(_reason(added, "has layers that were not agreed", "added arrays"))
    if removed:
        reasons.append(_reason(removed, "lacks layers that were agreed", "missing arrays"))
    if reshaped:
        detail = f"{reshaped[0]} is {mine[reshaped[0]]} instead of {theirs[reshaped[0]]}"
        reasons.append(_reason(reshaped, f"has layers of another shape ({detail})", "reshaped arrays"))
    return reasons


def _shapes(state: State) -> dict[str, tuple[int, ...]]:
    def shape(value: Tensor) -> tuple[int, ...]:
        return tuple(value.shape)

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

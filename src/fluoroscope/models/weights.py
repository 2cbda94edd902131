"""Starting a network from a file, every mismatch named.

A state dict from elsewhere seldom fits to the last array. Two differences are bridged, since both have one right
answer; anything else is an error:
- RGB kernels in a grey network are summed over the channels: a grey image repeated to RGB gives exactly that.
- A head for another number of classes is left at its fresh initialisation: its rows mean other things.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from torch import Tensor, nn

from fluoroscope.errors import BadInput
from fluoroscope.models.names import COUNTER, unwrapped
from fluoroscope.models.state_files import read_state


def started(
    module: nn.Module,
    weights: str | Path | None,
    *,
    stem: str,
    head: str,
    rename: Callable[[str], str] = str,
    leave_out: Collection[str] = (),
) -> nn.Module:
    """The module with the weights of the file, or as it is where there is none.

    `stem` is the first kernel, `head` the last layer; `rename` turns the file's names into the module's, and arrays
    whose name ends in one of `leave_out` are not asked for.
    """
    if weights is None:
        return module
    own = module.state_dict()
    state = {rename(name): tensor for name, tensor in unwrapped(read_state(weights), own).items()}
    state = {name: tensor for name, tensor in state.items() if name.rpartition(".")[2] not in leave_out}

    kernel = state.get(stem)
    if kernel is not None and kernel.ndim == 4 and kernel.shape[1] == 3 and own[stem].shape[1] == 1:
        state[stem] = kernel.sum(dim=1, keepdim=True)
    rows = state.get(f"{head}.weight")
    if rows is not None and len(rows) != len(own[f"{head}.weight"]):
        state |= {name: own[name] for name in (f"{head}.weight", f"{head}.bias")}
    for name, tensor in own.items():
        if name.endswith(COUNTER):  # files from before torch 0.4.1 have none; with a momentum it is unused
            state.setdefault(name, tensor)

    _check_fit(str(weights), own, state)
    module.load_state_dict(state)
    return module


def _check_fit(file: str, own: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    wrong = {
        "lacks": [name for name in own if name not in state],
        "has besides": [name for name in state if name not in own],
        "has in another shape": [
            f"{name} {tuple(state[name].shape)} instead of {tuple(tensor.shape)}"
            for name, tensor in own.items()
            if name in state and state[name].shape != tensor.shape
        ],
    }
    found = [f"it {what} {_some(names)}" for what, names in wrong.items() if names]
    if found:
        raise BadInput(f"{file} does not fit the architecture: {'; '.join(found)}.")


def _some(names: list[str], most: int = 5) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest

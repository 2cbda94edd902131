"""Two checkpoints of somebody's federation: the global model that a client was sent, and what it sends back."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fluoroscope.errors import BadInput
from fluoroscope.models.names import COUNTER, unwrapped
from fluoroscope.models.state_files import read_state
from fluoroscope.types import LocalTraining, Network, UpdateRecord
from fluoroscope.types.network import blueprint

Arrays = Mapping[str, Tensor | np.ndarray]
"""A state dict of torch or numpy."""


def record_of_files(
    network: Network,
    before: Path,
    after: Path,
    training: LocalTraining,
    *,
    round: int = 1,
    client: str = "client",
) -> UpdateRecord:
    """The update between two files.

    Args:
        network: what was trained.
        before: the global model that the client was sent: .pt, .pth, .safetensors or .npz.
        after: what the client sends back: all arrays, or less where something stays at home.
        training: how the client trained.
        round: the round's number.
        client: the client's name.

    Raises:
        BadInput: a file cannot be read, or its arrays are not the network's.
    """
    states = []
    for file in (before, after):
        try:
            states.append(fitted(read_state(file), network))
        except BadInput as problem:
            raise problem if str(file) in str(problem) else BadInput(f"{file}: {problem}") from problem
    return record_of_states(network, states[0], states[1], training, round=round, client=client)


def record_of_states(
    network: Network, before: Arrays, after: Arrays, training: LocalTraining, *, round: int = 1, client: str = "client"
) -> UpdateRecord:
    """The update between two state dicts as somebody's framework writes them.

    Raises:
        BadInput: their arrays are not the network's.
    """
    sent = with_counters(fitted(before, network), network)
    return UpdateRecord.between(network, sent, fitted(after, network), training, round=round, client=client)


def fitted(state: Arrays, network: Network) -> dict[str, Tensor]:
    """The arrays under the network's own names, halves in single precision.

    What DataParallel, `torch.compile`, Opacus and Lightning put before every name is taken off where the rest is then
    the network's; arrays without names (`np.savez` of a list, as Flower clients do) are taken in its order.

    Raises:
        BadInput: not one array is the network's.
    """
    own = blueprint(network).state_dict()
    given = {name: _tensor(value) for name, value in state.items()}
    if list(given) == [f"arr_{i}" for i in range(len(own))]:
        given = dict(zip(own, given.values(), strict=True))
    found = unwrapped(given, own, beside=True)
    if not any(name in own for name in found):
        raise BadInput(f"it holds {_some(given)}, and {network.name} has {_some(own)}: is this its model?")
    return {name: value.to(own[name].dtype) if name in own else value for name, value in found.items()}


def with_counters(state: Mapping[str, Tensor], network: Network) -> dict[str, Tensor]:
    """With BatchNorm's counters of batches, which some exports leave out and nothing is read from."""
    own = blueprint(network).state_dict()
    return {name: value for name, value in own.items() if name.endswith(COUNTER)} | dict(state)


def _tensor(value: Tensor | np.ndarray) -> Tensor:
    found = value.detach().cpu() if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
    return found.float() if found.dtype in (torch.float16, torch.bfloat16) else found


def _some(names: Mapping[str, object]) -> str:
    return ", ".join(list(names)[:3]) + (", ..." if len(names) > 3 else "")

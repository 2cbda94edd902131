"""Arrays under the names that wrappers give them, brought to the names of the network itself."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypeVar

from torch import Tensor, nn

from fluoroscope.types import State

WRAPPERS = ("module.", "_module.", "_orig_mod.")
"""What DistributedDataParallel, Opacus and torch.compile put before every name."""
T = TypeVar("T")


def wrapper_of(names: Iterable[str]) -> str:
    """What wrappers have put before every one of these names.

    Example:
        >>> wrapper_of(["module._orig_mod.fc.weight", "module._orig_mod.fc.bias"])
        'module._orig_mod.'
        >>> wrapper_of(["module.weight", "fc.bias"])
        ''
    """
    rest, found = list(names), ""
    while rest and (common := next((w for w in WRAPPERS if all(n.startswith(w) for n in rest)), "")):
        found, rest = found + common, [name.removeprefix(common) for name in rest]
    return found


def prefix_of(arrays: Iterable[str], known: Iterable[str]) -> str:
    """The same, and nothing where the network itself has such names."""
    names = set(arrays)
    return "" if names <= set(known) else wrapper_of(names)


def unwrapped(arrays: Mapping[str, T], known: Iterable[str] = ()) -> dict[str, T]:
    """The arrays without their wrappers' prefix."""
    prefix = prefix_of(arrays, known)
    return {name.removeprefix(prefix): value for name, value in arrays.items()}


def completed(arrays: State, network: nn.Module, frozen: Iterable[str] = ()) -> dict[str, Tensor]:
    """The whole state, where only what is trained travels, such as adapters (LoRA) over a common frozen base.

    Arrays that training changes are never filled in: a model that lacks one of them, or has one more, is left as it
    is, for whoever judges it to say so.

    Args:
        arrays: what travels.
        network: what they belong to; the rest is its own.
        frozen: parameters that are not trained, as patterns, beside those that the network itself has frozen.
    """
    whole, patterns = network.state_dict(), tuple(frozen)
    trained = {
        name
        for name, value in network.named_parameters()
        if value.requires_grad and not any(fnmatchcase(name, pattern) for pattern in patterns)
    }
    fits = all(name in whole and value.shape == whole[name].shape for name, value in arrays.items())
    return {**whole, **arrays} if fits and trained <= set(arrays) else dict(arrays)

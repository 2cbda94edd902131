"""Arrays under the names that wrappers give them, brought to the names of the network itself."""

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TypeVar

from torch import Tensor, nn

from fluoroscope.types import State

TOOLS = ("module.", "_module.", "_orig_mod.")
"""What DistributedDataParallel, Opacus and torch.compile put before every name."""
WRAPPERS = (*TOOLS, "model.", "network.", "net.")
"""The same, and what people and Lightning call a network that they hold; a network's own names may begin so, too."""
COUNTER = "num_batches_tracked"
"""The end of the name of BatchNorm's count of batches, which some exports leave out."""
_DEEP = 4
"""Wrappers around one another that are taken off."""
T = TypeVar("T")


def prefix_of(
    names: Iterable[str],
    known: Iterable[str] = (),
    *,
    wrappers: tuple[str, ...] = WRAPPERS,
    beside: bool = False,
) -> str:
    """What wrappers have put before the names: as much as leaves the most names of the network.

    Args:
        names: of the arrays.
        known: the network's own; without them, all that looks like a wrapper is one.
        wrappers: what they put before a name.
        beside: whether arrays may stand beside the wrapped network, such as a loss's in a checkpoint. Never of a
            message: what stands beside a model there has to be judged.

    Example:
        >>> prefix_of(["module._orig_mod.fc.weight", "module._orig_mod.fc.bias"])
        'module._orig_mod.'
        >>> prefix_of(["module.net.fc.weight", "module.net.fc.bias"], known=["net.fc.weight", "net.fc.bias"])
        'module.'
        >>> prefix_of(["module.weight", "fc.bias"])
        ''
    """
    given, own = list(names), set(known)
    found = list(_prefixes(given, wrappers, beside, _DEEP))
    if not own:
        return max(found, key=len)
    return max(found, key=lambda prefix: sum(name in own for name in _without(prefix, given)))  # ties: the first


def unwrapped(
    arrays: Mapping[str, T], known: Iterable[str] = (), *, wrappers: tuple[str, ...] = WRAPPERS, beside: bool = False
) -> dict[str, T]:
    """The arrays without their wrappers' prefix, and without what stands beside the network; see `prefix_of`."""
    prefix = prefix_of(arrays, known, wrappers=wrappers, beside=beside)
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def renamed(arrays: Mapping[str, T], known: Iterable[str]) -> dict[str, T]:
    """The arrays under the names of the network that they are to fill, whichever tools have wrapped either of them.

    Example:
        >>> renamed({"module.fc.weight": 1}, known=["_module.fc.weight"])
        {'_module.fc.weight': 1}
    """
    own = list(known)
    bare = unwrapped(arrays, own, wrappers=TOOLS)
    outer = prefix_of(own, bare, wrappers=TOOLS)
    return {f"{outer}{name}": value for name, value in bare.items()}


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


def _prefixes(names: list[str], wrappers: tuple[str, ...], beside: bool, deep: int) -> Iterator[str]:
    """None, then one wrapper's, then those of wrappers within it."""
    yield ""
    for wrapper in wrappers if deep else ():
        inner = _without(wrapper, names)
        if inner and (beside or len(inner) == len(names)):
            yield from (f"{wrapper}{rest}" for rest in _prefixes(inner, wrappers, beside, deep - 1))


def _without(prefix: str, names: list[str]) -> list[str]:
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

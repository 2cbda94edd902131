"""Which registered architecture a state dict belongs to, so that the guard can run what came as arrays."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch
from torch import nn

from fluoroscope.errors import FluoroscopeError
from fluoroscope.models.architecture import MODELS, Architecture
from fluoroscope.models.front import Front, FrontedNetwork
from fluoroscope.models.names import COUNTER, unwrapped
from fluoroscope.models.state_files import KINDS, read_state
from fluoroscope.types import Network, State

SMALLEST, USUAL, LARGEST = 28, 32, 1024
"""Sides of an image; the usual one is taken where several give the same arrays."""


_MOST_CLASSES = 10_000
"""Of a registered network: another with more is judged by its arrays."""


@dataclass(frozen=True, eq=False)
class Recognised:
    """A state dict, and the network that it fills where one is known."""

    state: State
    """Without a wrapper's prefix."""
    name: str | None = None
    network: nn.Module | None = None
    channels: int | None = None
    size: int | None = None
    """Of images that it takes."""


def recognised(state: State) -> Recognised:
    """The registered network, perhaps behind a front, that these arrays fill; or the arrays alone."""
    bare = unwrapped(state)
    shapes = {name: value.shape for name, value in bare.items() if not name.endswith(COUNTER)}
    for network in _candidates(bare):
        if _shapes(network) == shapes:
            return _filled(network, bare)
    return Recognised(bare)


def agreed_model(reference: str, known: Recognised) -> nn.Module | State:
    """What was agreed on, from a file or from a registered name; channels, classes and size are those of the model."""
    if Path(reference).suffix in KINDS or Path(reference).is_file():
        found = recognised(read_state(reference))
        return found.network or found.state
    MODELS.get(reference)  # an unknown name is said before anything is compared
    inner = {n.removeprefix("network."): v for n, v in known.state.items() if n.startswith("network.")} or known.state
    return (_fitting(reference, inner) or _like(reference, inner, known.size or SMALLEST)).build()


def _candidates(state: State) -> Iterator[Network]:
    for name in MODELS:
        if (found := _fitting(name, state)) is not None:
            yield found
    first = state.get("front.first.weight")
    if first is None or first.ndim != 2:
        return
    inner = {n.removeprefix("network."): v for n, v in state.items() if n.startswith("network.")}
    for name in MODELS:
        if (found := _fitting(name, inner)) is not None:
            side = math.isqrt(first.shape[1] // found.channels)
            for gate in (False, True):  # the file does not say which rectifier; units start to fire at 0 with either
                yield FrontedNetwork(replace(found, size=side), Front(len(first), gate=gate))


def _fitting(name: str, state: State) -> Architecture | None:
    """The architecture of this name whose arrays are exactly these; its size is searched, since arrays grow with it."""
    wanted = {key: value.shape for key, value in state.items() if not key.endswith(COUNTER)}
    low, high = SMALLEST, LARGEST
    found = _shapes(_like(name, state, low))
    if found is None or set(found) != set(wanted):
        return None
    while low < high:
        middle = (low + high) // 2
        if _values(_shapes(_like(name, state, middle)) or {}) < _values(wanted):
            low = middle + 1
        else:
            high = middle
    sizes = [USUAL, low] if _shapes(_like(name, state, USUAL)) == wanted else [low]
    return next((a for size in sizes if _shapes(a := _like(name, state, size)) == wanted), None)


def _like(name: str, state: State, size: int) -> Architecture:
    matrices = [value for value in state.values() if value.ndim in (2, 4)]
    channels = next((v.shape[1] for v in matrices if v.ndim == 4 and v.shape[1] in (1, 3)), 1)
    classes = min(max(2, len(matrices[-1])), _MOST_CLASSES) if matrices else 2
    return Architecture(name, channels, classes, size, weights="random" if name == "efficientnet-lite0" else None)


def _values(shapes: Mapping[str, torch.Size]) -> int:
    return sum(shape.numel() for shape in shapes.values())


@lru_cache(maxsize=512)
def _shapes(network: Network) -> dict[str, torch.Size] | None:
    try:
        with torch.device("meta"):  # shapes only: nothing is drawn or stored
            made = network.build().state_dict()
    except (FluoroscopeError, RuntimeError):
        return None
    return {name: value.shape for name, value in made.items() if not name.endswith(COUNTER)}


def _filled(network: Network, state: State) -> Recognised:
    module = network.build()
    module.load_state_dict(dict(state), strict=False)
    channels, height, _ = network.input_shape
    return Recognised(state, network.name, module, channels, height)

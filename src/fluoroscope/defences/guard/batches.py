"""What goes through a network to judge it: the client's own images, stand-ins beside them, or example inputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fluoroscope.defences.guard.stand_ins import stand_ins

MOST_IMAGES = 128
"""Of a client's images are enough."""
FEW, ENOUGH = 32, 48
"""Own images below which stand-ins are put beside them, and how many there are then."""
Example = Tensor | np.ndarray[Any, Any] | Sequence[Any] | Mapping[str, Any]
Inputs = Example | Callable[[], Example] | None
"""Images, or all that a network takes: a tuple for several inputs, a mapping for named ones, a function of nothing."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs of a network for some images."""

    inputs: tuple[Any, ...]
    named: Mapping[str, Any]
    size: int

    @property
    def picture(self) -> Tensor | None:
        """The first input that is a picture, or numbers: what a reading is compared with."""
        found = [v for v in (*self.inputs, *self.named.values()) if isinstance(v, Tensor) and v.is_floating_point()]
        return found[0] if found else None

    def first(self, count: int) -> "Batch":
        """The first images alone."""
        return self.at(torch.arange(min(count, self.size)))

    def at(self, chosen: Tensor) -> "Batch":
        def some(value: Any) -> Any:  # noqa: ANN401
            mine = isinstance(value, Tensor) and value.ndim > 0 and len(value) == self.size
            return value[chosen] if mine else value

        inputs, named = tuple(map(some, self.inputs)), {name: some(value) for name, value in self.named.items()}
        return Batch(inputs, named, len(chosen))

    def to(self, device: str) -> "Batch":
        """The same on another device; `meta` has shapes alone."""

        def moved(value: Any) -> Any:  # noqa: ANN401
            return value.to(device) if isinstance(value, Tensor) else value

        named = {name: moved(value) for name, value in self.named.items()}
        return replace(self, inputs=tuple(map(moved, self.inputs)), named=named)


def batch(inputs: Inputs) -> Batch | None:
    """Inputs as somebody gives them; None where there are none."""
    given = inputs() if callable(inputs) else inputs
    if given is None:
        return None
    values = (
        list(given.values())
        if isinstance(given, Mapping)
        else list(given)
        if isinstance(given, tuple | list)
        else [given]
    )
    values = [_tensor(value) for value in values]
    sizes = [len(value) for value in values if isinstance(value, Tensor) and value.ndim > 0]
    if not sizes or not sizes[0]:
        return None
    if isinstance(given, Mapping):
        made = Batch((), dict(zip(given, values, strict=True)), sizes[0])
    else:
        made = Batch(tuple(values), {}, sizes[0])
    return made.first(MOST_IMAGES)


def _tensor(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.ascontiguousarray(value))
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return value.float() if value.is_floating_point() else value
    return value


def completed(own: Batch) -> Batch:
    """Some stand-ins beside images that are few: as many as show how units divide them."""
    picture = own.picture
    if own.size >= FEW or picture is None or len(own.inputs) != 1 or own.named or picture.ndim not in (2, 3, 4, 5):
        return own
    more = stand_ins(tuple(picture.shape[1:]), ENOUGH - own.size)
    low, high = float(picture.min()), float(picture.max())
    return Batch((torch.cat([picture, low + (high - low) * more]),), {}, ENOUGH)

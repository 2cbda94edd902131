"""What goes through a network to judge it: the client's own images, stand-ins beside them, or example inputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fluoroscope.defences.guard.stand_ins import stand_ins
from fluoroscope.errors import BadInput

MOST_IMAGES = 128
"""Of a client's images are enough."""
DROWNS = 1e6
"""Times the median image's largest value: an error of a file."""
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
        """The largest input of numbers: what a reading is compared with. A row of a table may stand before it."""
        return next(iter(self.pictures), None)

    @property
    def pictures(self) -> tuple[Tensor, ...]:
        """All inputs of numbers, the largest first: the smaller of two pictures is a patient's, too."""
        found = [v for v in (*self.inputs, *self.named.values()) if isinstance(v, Tensor) and v.is_floating_point()]
        return tuple(sorted(found, key=lambda value: -value[:1].numel()))

    def first(self, count: int) -> "Batch":
        """The first images alone."""
        return self.at(torch.arange(min(count, self.size)))

    def at(self, chosen: Tensor) -> "Batch":
        def some(value: Any) -> Any:  # noqa: ANN401
            mine = isinstance(value, Tensor) and value.ndim > 0 and len(value) == self.size
            return value[chosen] if mine else value

        inputs, named = tuple(map(some, self.inputs)), {name: some(value) for name, value in self.named.items()}
        return Batch(inputs, named, len(chosen))

    def watched(self) -> "Batch":
        """Copies whose numbers require gradients: that tells what comes from the images from what does not."""

        def ready(value: Any) -> Any:  # noqa: ANN401
            if isinstance(value, Tensor) and value.is_floating_point():
                return value.detach().clone().requires_grad_()
            return value

        inputs, named = tuple(map(ready, self.inputs)), {name: ready(value) for name, value in self.named.items()}
        return replace(self, inputs=inputs, named=named)

    def usable(self) -> "Batch":
        """The images that hold numbers alone, and none that would drown the others."""
        good = torch.ones(self.size, dtype=torch.bool)
        for value in (*self.inputs, *self.named.values()):
            if isinstance(value, Tensor) and value.ndim > 0 and len(value) == self.size and value.is_floating_point():
                largest = value.reshape(self.size, -1).abs().amax(dim=1)
                good &= torch.isfinite(largest) & ~(largest > DROWNS * largest.nanmedian())
        return self if bool(good.all()) else self.at(good.nonzero().flatten())

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
    made = made.usable().first(MOST_IMAGES)
    if not made.size:
        raise BadInput("none of the images for the guard holds numbers alone: give images without NaN or infinity.")
    return made


def _tensor(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.ascontiguousarray(value))
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return value.float() if value.is_floating_point() or value.dtype == torch.uint8 else value  # bytes are pixels
    return value


def completed(own: Batch) -> Batch:
    """Some stand-ins beside images that are few: as many as show how units divide them."""
    picture = own.picture
    if own.size >= FEW or picture is None or len(own.inputs) != 1 or own.named or picture.ndim not in (2, 3, 4, 5):
        return own
    more = stand_ins(tuple(picture.shape[1:]), ENOUGH - own.size)
    low, high = float(picture.min()), float(picture.max())
    return Batch((torch.cat([picture, low + (high - low) * more]),), {}, ENOUGH)

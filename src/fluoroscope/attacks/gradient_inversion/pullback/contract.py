"""What a client's single step gives away, and its derivative: (images, labels) -> (gradients, statistics)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from torch import Tensor

from fluoroscope.types import State


class Statistics(NamedTuple):
    """A value for each channel of one BatchNorm layer: the batch's statistics, or the cotangents of both."""

    mean: Tensor
    var: Tensor
    """Biased, as the normalisation uses it; the running buffer holds the unbiased one."""


@dataclass(frozen=True, eq=False)
class Tape:
    """One evaluation of the step. Everything is detached; a subclass keeps what its pullback needs."""

    loss: Tensor
    gradients: dict[str, Tensor]
    """Of the mean cross-entropy, by parameter."""
    statistics: dict[str, Statistics]
    """By BatchNorm module, where it normalises by the batch's statistics."""


T = TypeVar("T", bound=Tape)


class Pullback(Protocol, Generic[T]):
    """Evaluates the step, then pulls cotangents of what it gave back to the images and the labels."""

    def forward(self, state: State, images: Tensor, labels: Tensor) -> T:
        """`labels` holds a probability per class: (n, classes). One problem's batch, at fixed parameters."""
        ...

    def backward(
        self, tape: T, gradients: Mapping[str, Tensor], statistics: Mapping[str, Statistics]
    ) -> tuple[Tensor, Tensor]:
        """The objective's derivative with respect to images and labels.

        Takes its derivatives with respect to the tape's gradients and statistics; what is left out counts as zero.
        A tape may be pulled back more than once.
        """
        ...

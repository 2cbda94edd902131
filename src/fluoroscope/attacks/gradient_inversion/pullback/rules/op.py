"""What a rule is: one evaluation of one operation of the network, with its four sweeps."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Size, Tensor
from torch.fx import Node

Maybe = Tensor | None
"""None is a zero that nobody computes."""
Inputs = Sequence[Any]
"""Tensors, and None for an optional one that was left out."""


class Op(ABC):
    """Made anew for every evaluation; it keeps between the sweeps what the later ones need.

    The tangent sweeps run on a shallow copy, to be run again: they may replace what is kept, but not change it.

    A tangent is a derivative d/de along w + e r; the last sweep gives the tangents of the second one's cotangents.
    `needs` tells which inputs' results will be used; the others may be None.
    """

    @abstractmethod
    def forward(self, inputs: Inputs) -> Tensor: ...

    @abstractmethod
    def backward(self, cotangent: Tensor, needs: Sequence[bool]) -> Sequence[Maybe]:
        """The cotangents of the inputs. Must be kept here if the last sweep needs it."""

    @abstractmethod
    def tangent(self, tangents: Sequence[Maybe]) -> Tensor:
        """The tangent of the output; at least one of the inputs' is given."""

    @abstractmethod
    def tangent_backward(self, cotangent: Maybe, needs: Sequence[bool]) -> Sequence[Maybe]:
        """The tangents of the inputs' cotangents, from the tangent of the output's."""


class Use(NamedTuple):
    """How a node of the traced network is to be computed."""

    make: Callable[[], Op]
    inputs: tuple[Node | None, ...]
    layer: Node | None = None
    """For a layer with batch statistics: a parameter or buffer of it, to know it by."""


class Linear(Op):
    """An operation linear in its one input: both forward sweeps are alike, and both backward ones."""

    shape: Size
    """Of the input."""

    @abstractmethod
    def apply(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def transpose(self, cotangent: Tensor) -> Tensor: ...

    def forward(self, inputs: Inputs) -> Tensor:
        self.shape = inputs[0].shape
        return self.apply(inputs[0])

    def backward(self, cotangent: Tensor, needs: Sequence[bool]) -> Sequence[Maybe]:
        return (self.transpose(cotangent),)

    def tangent(self, tangents: Sequence[Maybe]) -> Tensor:
        (dx,) = tangents
        assert dx is not None
        return self.apply(dx)

    def tangent_backward(self, cotangent: Maybe, needs: Sequence[bool]) -> Sequence[Maybe]:
        return (None if cotangent is None else self.transpose(cotangent),)


def plus(a: Maybe, b: Maybe) -> Maybe:
    """The sum, where None is zero."""
    if a is None or b is None:
        return b if a is None else a
    return a + b

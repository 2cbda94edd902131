"""What an optimiser of many independent problems promises. A problem is a row of x; rows never mix."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

Evaluate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(x of the rows asked for, their indices) -> (values, gradients). Rows at rest are not asked for."""


@dataclass(frozen=True, eq=False)
class Progress:
    """How far each row has come. An optimiser adds what it remembers: tensors only, so that any state can be stored."""

    best_x: Tensor
    best_values: Tensor
    """The lowest finite objective seen, and where; infinite before the first."""
    values: Tensor
    """At the start of the last step; of a diverged row, at best_x."""
    diverged: Tensor
    """Met a number that is not finite: rests at best_x for good."""
    rested: Tensor
    """Has nothing left to do: it converged, or it stagnated."""

    @property
    def running(self) -> Tensor:
        return ~(self.diverged | self.rested)

    def tensors(self) -> dict[str, Tensor]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def copy(self) -> Self:
        return type(self)(**{name: value.clone() for name, value in self.tensors().items()})


S = TypeVar("S", bound=Progress)


class Optimiser(Protocol[S]):
    """Settings, and what is done with them."""

    @property
    def keeps_to_a_box(self) -> bool:
        """Whether x may be projected between two steps."""
        ...

    def init(self, x: Tensor) -> S:
        """A fresh state for `x` (rows, dim)."""
        ...

    def step(self, x: Tensor, state: S, evaluate: Evaluate, factor: float = 1.0) -> tuple[Tensor, S, Tensor]:
        """The next x, the next state, and the values at the old x. `factor` is the schedule's, on the learning rate.

        Nothing is changed in place.
        """
        ...


def initial_progress(x: Tensor) -> dict[str, Tensor]:
    """The fields of Progress before anything was evaluated."""
    infinite = torch.full((len(x),), torch.inf, dtype=x.dtype, device=x.device)
    none = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    return {"best_x": x, "best_values": infinite, "values": infinite, "diverged": none, "rested": none}


def begin(x: Tensor, state: S) -> tuple[Tensor, S, Tensor]:
    """What a step works on: copies of both, and the indices of the rows that run."""
    return x.clone(), state.copy(), state.running.nonzero().squeeze(1)


def measure(x: Tensor, state: Progress, rows: Tensor, evaluate: Evaluate) -> tuple[Tensor, Tensor, Tensor]:
    """Evaluate; note the best in `state`; freeze what is not finite. Values, gradients, indices of rows that go on."""
    value, gradient = (found.detach() for found in evaluate(x[rows], rows))
    finite = value.isfinite() & gradient.isfinite().all(1)
    better = finite & (value < state.best_values[rows])
    state.best_x[rows[better]] = x[rows[better]]
    state.best_values[rows[better]] = value[better]
    freeze(x, state, rows[~finite])
    rows, value, gradient = keep(finite, rows, value, gradient)
    return value, gradient, rows


def freeze(x: Tensor, state: Progress, rows: Tensor) -> None:
    """Let diverged rows rest at their best."""
    x[rows] = state.best_x[rows]
    state.values[rows] = state.best_values[rows]
    state.diverged[rows] = True


def keep(mask: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    """The rows of each tensor where `mask` holds."""
    return tensors if bool(mask.all()) else tuple(t[mask] for t in tensors)

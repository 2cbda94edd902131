"""L-BFGS over many independent problems at once, as `torch.optim.LBFGS` without a line search does one.

Every problem is a row. It has its own history, step length and stop, so a batch gives what each row alone would.

The two loops of L-BFGS are two triangular solves, L alpha = S q and L' c = D alpha - Y H0 q', where L holds s_i.y_j for
y_j no older than s_i, and D its diagonal (Byrd, Nocedal and Schnabel 1994): a few large products instead of hundreds of
small ones. A new pair adds one column to the inverse of L, which is therefore kept instead of L.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from fluoroscope.attacks.common.descent import Evaluate, Progress, begin, freeze, initial_progress, keep, measure

CURVATURE = 1e-10
"""A pair enters the history only when y.s exceeds this, as in torch.optim.LBFGS."""
CACHE = 24 * 2**20
"""Bytes of history that the processor's cache holds."""


@dataclass(frozen=True, eq=False)
class LbfgsState(Progress):
    """What each row remembers between calls of `step`. The first axis is the row."""

    iterations: Tensor
    direction: Tensor
    length: Tensor
    gradient: Tensor
    """At the point where the last direction was taken."""
    steps: Tensor
    """s = x' - x, as (rows, slots, dim): a ring; slots are allotted as they fill, and hold zeros before."""
    changes: Tensor
    """y = g' - g, in the same slots."""
    curvatures: Tensor
    """y.s of each pair (D), in the same slots. In float64, as the inverse: small, and all else hangs on them."""
    inverse: Tensor
    """Of L, as (rows, slots, slots)."""
    pairs: Tensor
    """How many pairs a row has ever stored; the newest is in slot (pairs - 1) mod history."""
    scale: Tensor
    """y.s / y.y of the newest pair: the initial inverse Hessian."""


@dataclass(frozen=True)
class BatchedLbfgs:
    """Settings, with the defaults of torch.optim.LBFGS; `step` is one call of its `step`, for every row."""

    lr: float = 1.0
    max_iter: int = 20
    max_eval: int | None = None
    """Evaluations in one step; None allows 1.25 max_iter."""
    history: int = 100
    tolerance_grad: float = 1e-7
    tolerance_change: float = 1e-9

    @property
    def keeps_to_a_box(self) -> bool:
        return False  # a projected step is not the one that the history remembers

    def init(self, x: Tensor) -> LbfgsState:
        """A fresh state for `x` (rows, dim)."""
        rows, dim = x.shape
        count = torch.zeros(rows, dtype=torch.int64, device=x.device)
        return LbfgsState(
            **initial_progress(x),
            iterations=count,
            direction=torch.zeros_like(x),
            length=x.new_zeros(rows),
            gradient=torch.zeros_like(x),
            steps=x.new_zeros(rows, 0, dim),
            changes=x.new_zeros(rows, 0, dim),
            curvatures=x.new_zeros(rows, 0, dtype=torch.float64),
            inverse=x.new_zeros(rows, 0, 0, dtype=torch.float64),
            pairs=count,
            scale=x.new_ones(rows),
        ).copy()

    @torch.no_grad()
    def step(
        self, x: Tensor, state: LbfgsState, evaluate: Evaluate, factor: float = 1.0
    ) -> tuple[Tensor, LbfgsState, Tensor]:
        """Up to `max_iter` iterations: the new x, the new state, and the values at the old x as torch returns them."""
        x, state, active = begin(x, state)
        if not len(active):
            return x, state, state.values
        value, gradient, active = measure(x, state, active, evaluate)
        state.values[active] = value
        flat = self._flat(gradient)
        state.rested[active[flat]] = True  # as the objective does not change, it is flat for good
        active, value, gradient = keep(~flat, active, value, gradient)
        max_eval = self.max_iter * 5 // 4 if self.max_eval is None else self.max_eval

        # Rows that stop leave `active`; those that stay have all made the same number of evaluations in this step.
        for iteration in range(1, self.max_iter + 1):
            if not len(active):
                break
            state = self._turn(state, active, gradient, self.lr * factor)
            descent = torch.linalg.vecdot(gradient, state.direction[active])
            stay = ~(descent > -self.tolerance_change)
            active, value, gradient = keep(stay, active, value, gradient)
            move = state.direction[active] * state.length[active, None]
            x[active] += move
            lost = ~x[active].isfinite().all(1)
            freeze(x, state, active[lost])
            active, value, move = keep(~lost, active, value, move)
            if iteration == self.max_iter or not len(active):
                break  # as torch: the next step evaluates here
            before = value
            old = active
            value, gradient, active = measure(x, state, active, evaluate)
            if len(active) < len(old):
                before, move = keep(torch.isin(old, active), before, move)
            if iteration + 1 >= max_eval:
                break
            small = (move.abs().amax(1) <= self.tolerance_change) | ((value - before).abs() < self.tolerance_change)
            active, value, gradient = keep(~(self._flat(gradient) | small), active, value, gradient)
        return x, state, state.values

    def _flat(self, gradient: Tensor) -> Tensor:
        return gradient.abs().amax(1) <= self.tolerance_grad

    def _turn(self, state: LbfgsState, active: Tensor, gradient: Tensor, lr: float) -> LbfgsState:
        """Store the newest pair and take the next direction and length, for the active rows."""
        first = state.iterations[active] == 0
        change = gradient - state.gradient[active]
        step = state.direction[active] * state.length[active, None]
        product = torch.linalg.vecdot(change, step)
        new = ~first & (product > CURVATURE)
        state = self._remember(state, active[new], step[new], change[new], product[new])
        state.iterations[active] += 1
        state.direction[active] = self._turned(state, active, -gradient, change, new)
        state.gradient[active] = gradient
        shortened = (1 / gradient.abs().sum(1)).clamp(max=1) * lr
        state.length[active] = torch.where(first, shortened, torch.full_like(shortened, lr))
        return state

    def _remember(self, state: LbfgsState, rows: Tensor, step: Tensor, change: Tensor, product: Tensor) -> LbfgsState:
        """The pair itself, over the oldest one; its column of the inverse waits for S y."""
        if not len(rows):
            return state
        slot = state.pairs[rows] % self.history
        state = _with_slots(state, int(slot.max()) + 1, self.history)
        state.steps[rows, slot], state.changes[rows, slot] = step, change
        state.curvatures[rows, slot] = product.double()
        state.inverse[rows, slot] = 0
        state.inverse[rows, :, slot] = 0
        state.scale[rows] = product / torch.linalg.vecdot(change, change)
        state.pairs[rows] += 1
        return state

    def _turned(self, state: LbfgsState, active: Tensor, d: Tensor, change: Tensor, new: Tensor) -> Tensor:
        """H d, after the inverse of L has taken in the newest pairs of the `new` among the active rows.

        A few neighbours at a time: each history is read twice, the second time from the cache, and is nowhere copied.
        """
        if not state.steps.shape[1]:
            return d
        few = max(1, CACHE // (2 * state.steps[0].numel() * state.steps.element_size()))
        sizes = _neighbours(active, few)
        parts = zip(*(torch.split(part, sizes) for part in (active, d, change, new)), strict=True)
        return torch.cat([self._turned_few(state, *part) for part in parts])

    def _turned_few(self, state: LbfgsState, rows: Tensor, d: Tensor, change: Tensor, new: Tensor) -> Tensor:
        steps, changes = _of(state.steps, rows), _of(state.changes, rows)
        of_steps = (torch.stack([change, d], 1) @ steps.mT).double()  # S y and S q in one pass over S
        self._extend(state, rows[new], of_steps[new, 0])
        inverse = _of(state.inverse, rows)
        alpha = inverse @ of_steps[:, 1, :, None]
        d = (d - _summed(changes, alpha)) * state.scale[rows, None]
        of_changes = (d[:, None] @ changes.mT).double()
        right = state.curvatures[rows, :, None] * alpha - of_changes.mT
        return d + _summed(steps, inverse.mT @ right)

    def _extend(self, state: LbfgsState, rows: Tensor, of_steps: Tensor) -> None:
        """The newest pair's column in the inverse of L, from S y: of [[y.s, 0], [S y, L]], newest first."""
        if not len(rows):
            return
        slot = (state.pairs[rows] - 1) % self.history
        corner = 1 / state.curvatures[rows, slot, None]
        column = -corner * (_of(state.inverse, rows) @ of_steps[..., None])[..., 0]
        state.inverse[rows, :, slot] = column.scatter(1, slot[:, None], corner)


def _neighbours(rows: Tensor, most: int) -> list[int]:
    """The lengths of the runs of neighbours that ascending rows fall into, none above `most`."""
    ends = [*((rows.diff() > 1).nonzero().squeeze(1) + 1).tolist(), len(rows)]
    runs = [end - begin for begin, end in pairwise([0, *ends])]
    return [min(most, run - done) for run in runs for done in range(0, run, most)]


def _of(state: Tensor, rows: Tensor) -> Tensor:
    """The rows' own, without a copy where they are neighbours."""
    first, last = int(rows[0]), int(rows[-1])
    return state[first : last + 1] if last - first + 1 == len(rows) else state[rows]


def _summed(history: Tensor, weights: Tensor) -> Tensor:
    """Sum of each row's slots (rows, slots, dim), weighed by (rows, slots, 1)."""
    return (weights.mT.to(history.dtype) @ history)[:, 0]  # six times as fast as history.mT @ weights


def _with_slots(state: LbfgsState, needed: int, limit: int) -> LbfgsState:
    """Room for `needed` pairs: a short run on large images should not pay for the whole history."""
    have = state.steps.shape[1]
    if needed <= have:
        return state
    more = min(limit, max(needed, 2 * have, 8)) - have
    return replace(
        state,
        steps=F.pad(state.steps, (0, 0, 0, more)),
        changes=F.pad(state.changes, (0, 0, 0, more)),
        curvatures=F.pad(state.curvatures, (0, more)),
        inverse=F.pad(state.inverse, (0, more, 0, more)),
    )

"""L-BFGS over many independent problems at once, as `torch.optim.LBFGS` without a line search does one.

Every problem is a row. It has its own history, step length and stop, so a batch gives what each row alone would.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
import torch.nn.functional as F
from torch import Tensor

Evaluate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(x of the rows asked for, their indices) -> (values, gradients). Rows that have stopped are not asked for."""

CURVATURE = 1e-10
"""A pair enters the history only when y.s exceeds this, as in torch.optim.LBFGS."""


@dataclass(frozen=True, eq=False)
class LbfgsState:
    """What each row remembers between calls of `step`. The first axis is the row."""

    iterations: Tensor
    direction: Tensor
    length: Tensor
    gradient: Tensor
    """At the point where the last direction was taken."""
    steps: Tensor
    """s = x' - x, as (rows, slots, dim): a ring; slots are allotted as they fill."""
    changes: Tensor
    """y = g' - g, in the same slots."""
    products: Tensor
    """s.y of every slot's s with every y that is no older, as (rows, slots, slots); what is older is left as it was."""
    pairs: Tensor
    """How many pairs a row has ever stored; the newest is in slot (pairs - 1) mod history."""
    scale: Tensor
    """y.s / y.y of the newest pair: the initial inverse Hessian."""
    best_x: Tensor
    best_values: Tensor
    """The lowest finite objective seen, and where; infinite before the first."""
    values: Tensor
    """At the start of the last step; of a diverged row, at best_x."""
    diverged: Tensor
    """Met a number that is not finite: rests at best_x for good."""
    converged: Tensor
    """Started a step with a gradient below tolerance: rests for good, as the objective does not change."""

    def copy(self) -> "LbfgsState":
        return LbfgsState(**{f.name: getattr(self, f.name).clone() for f in fields(self)})

    @property
    def running(self) -> Tensor:
        return ~(self.diverged | self.converged)


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

    def init(self, x: Tensor) -> LbfgsState:
        """A fresh state for `x` (rows, dim)."""
        rows, dim = x.shape
        none = torch.zeros(rows, dtype=torch.bool, device=x.device)
        zero, count = x.new_zeros(rows), torch.zeros(rows, dtype=torch.int64, device=x.device)
        return LbfgsState(
            iterations=count,
            direction=torch.zeros_like(x),
            length=zero,
            gradient=torch.zeros_like(x),
            steps=x.new_zeros(rows, 0, dim),
            changes=x.new_zeros(rows, 0, dim),
            products=x.new_zeros(rows, 0, 0),
            pairs=count,
            scale=torch.ones_like(zero),
            best_x=x.clone(),
            best_values=torch.full_like(zero, torch.inf),
            values=torch.full_like(zero, torch.inf),
            diverged=none,
            converged=none,
        )

    @torch.no_grad()
    def step(self, x: Tensor, state: LbfgsState, evaluate: Evaluate) -> tuple[Tensor, LbfgsState, Tensor]:
        """Up to `max_iter` iterations: the new x, the new state, and the values at the old x as torch returns them."""
        x, state = x.clone(), state.copy()
        active = state.running.nonzero().squeeze(1)
        if not len(active):
            return x, state, state.values
        value, gradient, active = _observe(x, state, active, evaluate)
        state.values[active] = value
        flat = self._flat(gradient)
        state.converged[active[flat]] = True
        active, value, gradient = _keep(~flat, active, value, gradient)
        max_eval = self.max_iter * 5 // 4 if self.max_eval is None else self.max_eval

        # Rows that stop leave `active`; those that stay have all made the same number of evaluations in this step.
        for iteration in range(1, self.max_iter + 1):
            if not len(active):
                break
            state = self._turn(state, active, gradient)
            descent = torch.linalg.vecdot(gradient, state.direction[active])
            stay = ~(descent > -self.tolerance_change)
            active, value, gradient = _keep(stay, active, value, gradient)
            move = state.direction[active] * state.length[active, None]
            x[active] += move
            lost = ~x[active].isfinite().all(1)
            _freeze(x, state, active[lost])
            active, value, move = _keep(~lost, active, value, move)
            if iteration == self.max_iter or not len(active):
                break  # as torch: the next step evaluates here
            before = value
            old = active
            value, gradient, active = _observe(x, state, active, evaluate)
            if len(active) < len(old):
                before, move = _keep(torch.isin(old, active), before, move)
            if iteration + 1 >= max_eval:
                break
            small = (move.abs().amax(1) <= self.tolerance_change) | ((value - before).abs() < self.tolerance_change)
            active, value, gradient = _keep(~(self._flat(gradient) | small), active, value, gradient)
        return x, state, state.values

    def _flat(self, gradient: Tensor) -> Tensor:
        return gradient.abs().amax(1) <= self.tolerance_grad

    def _turn(self, state: LbfgsState, active: Tensor, gradient: Tensor) -> LbfgsState:
        """Store the newest pair and take the next direction and length, for the active rows."""
        first = state.iterations[active] == 0
        state = self._remember(state, active[~first], gradient[~first])
        state.iterations[active] += 1
        state.direction[active] = self._turned(state, active, gradient)  # -gradient for a first, which has no pairs
        state.gradient[active] = gradient
        shortened = (1 / gradient.abs().sum(1)).clamp(max=1) * self.lr
        state.length[active] = torch.where(first, shortened, torch.full_like(shortened, self.lr))
        return state

    def _remember(self, state: LbfgsState, rows: Tensor, gradient: Tensor) -> LbfgsState:
        change = gradient - state.gradient[rows]
        step = state.direction[rows] * state.length[rows, None]
        product = torch.linalg.vecdot(change, step)
        rows, change, step, product = _keep(product > CURVATURE, rows, change, step, product)
        if not len(rows):
            return state
        slot = state.pairs[rows] % self.history
        state = _with_slots(state, int(slot.max()) + 1, self.history)
        state.steps[rows, slot] = step
        state.changes[rows, slot] = change
        state.products[rows, :, slot] = _times(_of(state.steps, rows), change)
        state.scale[rows] = product / torch.linalg.vecdot(change, change)
        state.pairs[rows] += 1
        return state

    def _turned(self, state: LbfgsState, active: Tensor, gradient: Tensor) -> Tensor:
        """-H g. The two loops of L-BFGS are two triangular solves, L alpha = S q and L' c = D alpha - Y H0 q'.

        L holds s_i.y_j for j no older than i, D its diagonal (Byrd, Nocedal and Schnabel 1994): a few large products
        instead of hundreds of small ones. A row with fewer pairs than its neighbours has ones on L's diagonal there.
        """
        pairs = state.pairs[active]
        depth = int(pairs.clamp(max=self.history).max())
        d = -gradient
        if not depth:
            return d
        age = torch.arange(depth, device=pairs.device)
        held = age < pairs[:, None]
        slot = torch.where(held, (pairs[:, None] - 1 - age) % self.history, 0)  # newest first
        steps, changes = _of(state.steps, active)[:, :depth], _of(state.changes, active)[:, :depth]
        lower = state.products[active[:, None, None], slot[:, :, None], slot[:, None, :]].tril()
        lower = torch.where(held[:, :, None] & held[:, None, :], lower, 0) + torch.diag_embed((~held).to(d))

        def by_age(by_slot: Tensor) -> Tensor:
            return torch.where(held, by_slot.gather(1, slot), 0)

        def summed(pairs: Tensor, weights: Tensor) -> Tensor:
            by_slot = torch.zeros_like(weights).scatter_add_(1, slot, weights)
            return (by_slot[:, None] @ pairs)[:, 0]

        alpha = torch.linalg.solve_triangular(lower, by_age(_times(steps, d))[..., None], upper=False)[..., 0]
        d = (d - summed(changes, alpha)) * state.scale[active, None]
        right = lower.diagonal(dim1=1, dim2=2) * alpha - by_age(_times(changes, d))
        return d + summed(steps, torch.linalg.solve_triangular(lower.mT, right[..., None], upper=True)[..., 0])


def _observe(x: Tensor, state: LbfgsState, active: Tensor, evaluate: Evaluate) -> tuple[Tensor, Tensor, Tensor]:
    """Evaluate; keep the best; freeze what is not finite. Values, gradients and indices of the rows that go on."""
    value, gradient = evaluate(x[active], active)
    value, gradient = value.detach(), gradient.detach()
    finite = value.isfinite() & gradient.isfinite().all(1)
    better = active[finite & (value < state.best_values[active])]
    state.best_x[better] = x[better]
    state.best_values[active] = torch.where(finite, value.minimum(state.best_values[active]), state.best_values[active])
    _freeze(x, state, active[~finite])
    active, value, gradient = _keep(finite, active, value, gradient)
    return value, gradient, active


def _freeze(x: Tensor, state: LbfgsState, rows: Tensor) -> None:
    x[rows] = state.best_x[rows]
    state.values[rows] = state.best_values[rows]
    state.diverged[rows] = True


def _keep(mask: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    return tensors if bool(mask.all()) else tuple(t[mask] for t in tensors)


def _of(history: Tensor, rows: Tensor) -> Tensor:
    """Some rows of a history; no copy when it is all of them."""
    return history if len(rows) == len(history) else history[rows]


def _times(history: Tensor, vector: Tensor) -> Tensor:
    """(rows, slots, dim) times (rows, dim)."""
    return (vector[:, None] @ history.mT)[:, 0]  # six times as fast as history @ vector[..., None]


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
        products=F.pad(state.products, (0, more, 0, more)),
    )

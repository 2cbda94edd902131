"""Numbers about a client, read off its update: a ridge regression, learned from rounds played on public images.

What training does is not linear in what is asked: the last layer follows the log-odds of a class rather than its share.
So the first reading tells which simulated rounds are like the client's, and the second is fitted to those alone (local
regression: Cleveland, JASA 1979).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.inference.shadows import told_defence
from fluoroscope.errors import Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.types import Observation, PrivateBatch, State

PENALTIES = tuple(10.0**power for power in range(-6, 5))
"""Weights of the ridge, relative to the features' mean square."""
SKETCH = 32
"""Numbers that are kept of a layer other than the last."""
NEAR = 0.5
"""Of the simulated rounds, those that the second reading is fitted to; with few rounds more of them."""
FEWEST_NEAR = 16

Draw = Callable[[int], tuple[PrivateBatch, Tensor]]
"""From a simulation's number to the client's images in it and the numbers (k,) that are to be read."""


@dataclass(frozen=True, eq=False)
class UpdateFeatures:
    """What is looked at: the last dense layer whole, its rows' sums, and a sketch of every other array that is sent."""

    head: str | None
    projections: Mapping[str, Tensor]
    whole: bool
    """Whether more than the last layer's bias and row sums is looked at."""

    def of(self, update: State, before: State, after: State) -> Tensor:
        """One row of features, float64."""
        found = []
        if self.head is not None:
            weight, bias = update[self.head], update.get(f"{self.head.removesuffix('weight')}bias")
            found += [weight.sum(1), *([] if bias is None else [bias]), *([weight.flatten()] if self.whole else [])]
        if self.whole or self.head is None:
            changes = {**update, **{name: after[name] - before[name] for name in after if name in before}}
            found += [changes[name].flatten().double() @ rows for name, rows in self.projections.items()]
        return torch.cat([part.double().cpu() for part in found])


@dataclass(frozen=True, eq=False)
class Fit:
    """A ridge regression, and how it did on rows that were left out of it in turn."""

    centre: Tensor
    scale: Tensor
    weights: Tensor
    mean: Tensor
    """Of the targets."""
    left_out: Tensor
    """(rows, targets): what was missed of each row by a fit to the others."""

    @property
    def error(self) -> float:
        return float(self.left_out.abs().mean())

    def __call__(self, features: Tensor) -> Tensor:
        return self.mean + ((features - self.centre) / self.scale) @ self.weights


@dataclass(frozen=True, eq=False)
class UpdateReader:
    """From an update to numbers."""

    features: UpdateFeatures
    rows: Tensor
    """(rounds, features) that were simulated."""
    targets: Tensor
    """(rounds, k)."""
    fit: Fit
    """To all of them."""

    def read(self, seen: Observation) -> Tensor:
        """(k,), float64: by all simulated rounds, then by those that are nearest to the first reading."""
        row = self.features.of(seen.update or {}, seen.buffers_before or {}, seen.buffers_after or {})
        return self._near(self.fit(row), self.rows, self.targets)(row)

    def left_out(self) -> Tensor:
        """(rounds, k): what both readings miss of each simulated round, learned from all others."""
        missed = []
        for i, (row, target) in enumerate(zip(self.rows, self.targets, strict=True)):
            others = torch.arange(len(self.rows)) != i
            fit = self._near(target - self.fit.left_out[i], self.rows[others], self.targets[others])
            missed.append(target - fit(row))
        return torch.stack(missed)

    @staticmethod
    def _near(first: Tensor, rows: Tensor, targets: Tensor) -> Fit:
        near = nearest(first, targets)
        return ridge_left_one_out(rows[near], targets[near])


def nearest(first: Tensor, targets: Tensor) -> Tensor:
    """The places of the rounds whose targets are nearest to these (k,) values, by the sum of differences."""
    count = min(len(targets), max(FEWEST_NEAR, math.ceil(NEAR * len(targets))))
    return (targets - first).abs().sum(1).argsort(stable=True)[:count]


def learned_reader(attack: str, setup: Setup, draw: Draw, simulations: int, rng: Generator) -> UpdateReader:
    """Play so many rounds of clients in the victim's place, and learn to read off each update what was drawn.

    The last layer alone, or more: by what was left out in turn, of the attacker's own rounds.
    """
    seen = setup.observation
    looked_at = [_features(attack, seen, setup.outputs, whole, rng) for whole in (False, True)]
    rows: list[list[Tensor]] = [[], []]
    targets = []
    defence = told_defence(seen)
    for number in range(simulations):
        batch, target = draw(number)
        sent = client_round(setup.network, setup.state, batch, setup.training, rng, defence).record
        for kind, each in zip(rows, looked_at, strict=True):
            kind.append(each.of(sent.arrays, sent.buffers_before, sent.buffers_after or {}))
        targets.append(target)
    wanted = torch.stack(targets).double()
    readers = [
        UpdateReader(each, torch.stack(kind), wanted, ridge_left_one_out(torch.stack(kind), wanted))
        for each, kind in zip(looked_at, rows, strict=True)
    ]
    return min(readers, key=lambda each: each.fit.error)


def ridge_left_one_out(features: Tensor, targets: Tensor) -> Fit:
    """Ridge regression of centred targets, its penalty by leaving one out.

    In the dual: with few simulations and many features the kernel is the small matrix. Of the fit K (K + l)^-1 = H the
    residual of a row that was left out is r_i / (1 - H_ii - 1/n), the 1/n for the mean.
    """
    centre, scale = features.mean(0), features.std(0)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    x, mean = (features - centre) / scale, targets.mean(0)
    y = targets - mean
    kernel = x @ x.T
    level = float(kernel.diagonal().mean()) or 1.0
    values, vectors = torch.linalg.eigh(kernel)
    values = values.clamp_min(0)
    best: Fit | None = None
    for penalty in PENALTIES:
        shrunk = values / (values + penalty * level)
        fit = (vectors * shrunk) @ vectors.T
        left = (1 - fit.diagonal() - 1 / len(x)).clamp_min(1e-6)
        missed = (y - fit @ y) / left[:, None]
        if best is None or float(missed.abs().mean()) < best.error:
            dual = (vectors / (values + penalty * level)) @ (vectors.T @ y)
            best = Fit(centre, scale, x.T @ dual, mean, missed)
    assert best is not None
    return best


def _features(attack: str, seen: Observation, classes: int, whole: bool, rng: Generator) -> UpdateFeatures:
    update, buffers = seen.update or {}, seen.buffers_after or {}
    heads = [n for n, v in update.items() if n.endswith("weight") and v.ndim == 2 and len(v) == classes]
    head = heads[-1] if heads else None
    others = {n: v for n, v in {**update, **buffers}.items() if n != head and v.is_floating_point()}
    if head is None and not others:
        raise Unsupported(f"{attack} was sent nothing that it could learn from: every array stayed at home.")
    projections = {
        name: torch.randn(value.numel(), min(SKETCH, value.numel()), generator=rng, dtype=torch.float64)
        for name, value in others.items()
    }
    return UpdateFeatures(head, projections, whole)

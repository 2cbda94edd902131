"""Numbers about a client, read off its update: a ridge regression, learned from rounds played on public images.

Every array that is sent counts nearly alike, however large it is, and numbers of a large one are taken by lot: what a
class mix moves is spread over all layers. One straight line reads what bends, too: there are more numbers than rounds.
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
LOOKED_AT = 4096
"""Numbers of an array."""
EVENNESS = 0.4
"""A number of an array of n weighs n^-EVENNESS: at 1/2 arrays count alike, at 0 numbers do. Small arrays follow the
last few batches; in large ones the order of the batches averages out."""
LEVEL = 0.95

Draw = Callable[[int], tuple[PrivateBatch, Tensor]]
"""From a simulation's number to the client's images in it and the numbers (k,) that are to be read."""


@dataclass(frozen=True, eq=False)
class UpdateFeatures:
    """What is looked at: the last dense layer's bias and row sums, or some numbers of every array."""

    head: str | None
    """Weights of the last dense layer, where it alone is looked at."""
    places: Mapping[str, Tensor]
    """Which numbers of an array."""

    def of(self, update: State, before: State, after: State) -> list[Tensor]:
        """An array of float64 per array that is looked at."""
        if self.head is not None:
            weight, bias = update[self.head], update.get(f"{self.head.removesuffix('weight')}bias")
            return [torch.cat([weight.sum(1), *([] if bias is None else [bias])]).double().cpu()]
        changes = {**update, **{name: after[name] - before[name] for name in after if name in before}}
        return [changes[name].flatten()[chosen].double().cpu() for name, chosen in self.places.items()]


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
    fit: Fit
    """To all rounds that were simulated."""

    def read(self, seen: Observation) -> Tensor:
        """(k,), float64."""
        return self.fit(
            torch.cat(self.features.of(seen.update or {}, seen.buffers_before or {}, seen.buffers_after or {}))
        )

    @property
    def half_width(self) -> Tensor:
        """(k,): what is missed of 95 % of the simulated rounds, each read by what was learned from the others."""
        missed = self.fit.left_out.abs().sort(0).values
        return missed[min(len(missed), math.ceil(LEVEL * (len(missed) + 1))) - 1]


def learned_reader(attack: str, setup: Setup, draw: Draw, simulations: int, rng: Generator) -> UpdateReader:
    """Play so many rounds of clients in the victim's place, and learn to read off each update what was drawn.

    The last layer alone, or more: by what was left out in turn, of the attacker's own rounds.
    """
    seen = setup.observation
    looked_at = _looked_at(attack, seen, setup.outputs, rng)
    rows: list[list[list[Tensor]]] = [[] for _ in looked_at]
    targets = []
    defence = told_defence(seen)
    for number in range(simulations):
        batch, target = draw(number)
        sent = client_round(setup.network, setup.state, batch, setup.training, rng, defence).record
        for kind, each in zip(rows, looked_at, strict=True):
            kind.append(each.of(sent.arrays, sent.buffers_before, sent.buffers_after or {}))
        targets.append(target)
    wanted = torch.stack(targets).double()
    readers = [UpdateReader(each, _fit(kind, wanted)) for each, kind in zip(looked_at, rows, strict=True)]
    return min(readers, key=lambda each: each.fit.error)


def _fit(rows: list[list[Tensor]], targets: Tensor) -> Fit:
    sizes = torch.cat([torch.full((len(part),), float(len(part)), dtype=torch.float64) for part in rows[0]])
    return ridge_left_one_out(torch.stack([torch.cat(row) for row in rows]), targets, sizes.pow(-EVENNESS))


def ridge_left_one_out(features: Tensor, targets: Tensor, weights: Tensor | None = None) -> Fit:
    """Ridge regression of centred targets, its penalty by leaving one out; `weights` of the features, (features,).

    In the dual: with few simulations and many features the kernel is the small matrix. Of the fit K (K + l)^-1 = H the
    residual of a row that was left out is r_i / (1 - H_ii - 1/n), the 1/n for the mean.
    """
    centre, scale = features.mean(0), features.std(0)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    scale = scale if weights is None else scale / weights
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


def _looked_at(attack: str, seen: Observation, classes: int, rng: Generator) -> list[UpdateFeatures]:
    """The last layer alone, where it is sent, and all that is."""
    update, buffers = seen.update or {}, seen.buffers_after or {}
    heads = [n for n, v in update.items() if n.endswith("weight") and v.ndim == 2 and len(v) == classes]
    sent = {n: v for n, v in {**update, **buffers}.items() if v.is_floating_point()}
    if not sent:
        raise Unsupported(f"{attack} was sent nothing that it could learn from: every array stayed at home.")
    places = {n: torch.randperm(v.numel(), generator=rng)[:LOOKED_AT] for n, v in sent.items()}
    return [*(UpdateFeatures(head, {}) for head in heads[-1:]), UpdateFeatures(None, places)]

"""Counts learned by simulation: the client's rounds are played on public images of random class mixes, and a ridge
regression reads the mix from what would have been sent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.inference.label_counts import LABEL_COUNT_ATTACKS, by_class, whole_counts
from fluoroscope.attacks.inference.registry import Seen
from fluoroscope.attacks.inference.shadows import told_defence
from fluoroscope.digest import digest
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.types import Capability, Observation, PrivateBatch, State

PENALTIES = tuple(10.0**power for power in range(-6, 5))
"""Weights of the ridge, relative to the features' mean square."""
SPREADS = (1.0, 0.3)
"""Of the Dirichlet distributions that mixes are drawn from, by turns: all alike, and rather with a class missing."""
SKETCH = 32
"""Numbers that are kept of a layer other than the last."""


@dataclass(frozen=True)
class LearnedCounts:
    """Adapts to any training and any defence of the client: what can be played can be learned from."""

    needs: ClassVar[frozenset[Capability]] = SIMULATION | {Capability.UPDATE, Capability.PUBLIC_IMAGES}

    simulations: int = 64

    def run(self, observations: Seen, rng: Generator) -> Tensor:
        """A row per observation. Those of one round and one training configuration are learned for once."""
        if self.simulations < 4:
            raise Misconfigured(f"learned-counts needs 4 simulations or more, not {self.simulations}.")
        readers: dict[str, _Reader] = {}
        rows = []
        for seen in observations:
            setup = Setup.of(seen, self.needs, "learned-counts")
            key = digest(setup.state, setup.training, seen.public_images, seen.defence, sorted(seen.update or {}))
            if key not in readers:
                readers[key] = _learned(setup, self.simulations, rng)
            rows.append(readers[key].counts(seen))
        return torch.stack(rows)


@dataclass(frozen=True, eq=False)
class _Reader:
    """From an update to counts."""

    evidence: "_Evidence"
    centre: Tensor
    scale: Tensor
    weights: Tensor
    mean: Tensor
    images: int

    def counts(self, seen: Observation) -> Tensor:
        features = self.evidence.of(seen.update or {}, seen.buffers_before or {}, seen.buffers_after or {})
        shares = self.mean + ((features - self.centre) / self.scale) @ self.weights
        return whole_counts(shares, self.images)


@dataclass(frozen=True, eq=False)
class _Evidence:
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


def _learned(setup: Setup, simulations: int, rng: Generator) -> _Reader:
    seen, public = setup.observation, setup.observation.public_images
    assert public is not None  # in `needs`
    evidence = [_evidence(seen, setup.outputs, whole, rng) for whole in (False, True)]
    rows: list[list[Tensor]] = [[], []]
    targets = []
    places, training, defence = by_class("learned-counts", public, setup.outputs), setup.training, told_defence(seen)
    for number in range(simulations):
        chosen = random_mix(places, training.images, SPREADS[number % len(SPREADS)], rng)
        batch = PrivateBatch(public.images[chosen], public.labels[chosen], ("",) * len(chosen))
        sent = client_round(setup.network, setup.state, batch, training, rng, defence).record
        for kind, each in zip(rows, evidence, strict=True):
            kind.append(each.of(sent.arrays, sent.buffers_before, sent.buffers_after or {}))
        targets.append(batch.labels.bincount(minlength=setup.outputs) / len(batch))
    shares = torch.stack(targets).double()
    fits = [_fitted(torch.stack(kind), shares) for kind in rows]
    best = min(range(2), key=lambda i: fits[i][0])  # by what was left out in turn, of the attacker's own rounds
    _, centre, scale, weights = fits[best]
    return _Reader(evidence[best], centre, scale, weights, shares.mean(0), training.images)


def _evidence(seen: Observation, classes: int, whole: bool, rng: Generator) -> _Evidence:
    update, buffers = seen.update or {}, seen.buffers_after or {}
    heads = [n for n, v in update.items() if n.endswith("weight") and v.ndim == 2 and len(v) == classes]
    head = heads[-1] if heads else None
    others = {n: v for n, v in {**update, **buffers}.items() if n != head and v.is_floating_point()}
    if head is None and not others:
        raise Unsupported("learned-counts was sent nothing that it could learn from: every array stayed at home.")
    projections = {
        name: torch.randn(value.numel(), min(SKETCH, value.numel()), generator=rng, dtype=torch.float64)
        for name, value in others.items()
    }
    return _Evidence(head, projections, whole)


def random_mix(places: list[Tensor], images: int, spread: float, rng: Generator) -> list[int]:
    """Images of a client with a random class mix: shares by a Dirichlet distribution, images by lot.

    Within a class nobody comes again before everybody was taken.
    """
    # Dirichlet: gamma variables by their sum. A gamma of shape k below 1 is one of k + 1 times u^(1/k) (Marsaglia).
    gammas = _gammas(torch.full((len(places),), spread, dtype=torch.float64), rng)
    shares = gammas / gammas.sum()
    drawn = torch.multinomial(shares.clamp_min(1e-12), images, replacement=True, generator=rng)
    chosen: list[int] = []
    for c, count in enumerate(drawn.bincount(minlength=len(places)).tolist()):
        times = -(-count // len(places[c]))
        orders = [places[c][torch.randperm(len(places[c]), generator=rng)] for _ in range(times)]
        chosen += torch.cat(orders)[:count].tolist() if orders else []
    return chosen


def _gammas(shape: Tensor, rng: Generator) -> Tensor:
    uniform = torch.rand(shape.shape, generator=rng, dtype=torch.float64)
    return torch._standard_gamma(shape + 1, generator=rng) * uniform ** (1 / shape)


def _fitted(features: Tensor, targets: Tensor) -> tuple[float, Tensor, Tensor, Tensor]:
    """Ridge regression of centred targets, its penalty by leaving one out: the error of that, centre, scale, weights.

    In the dual: with few simulations and many features the kernel is the small matrix. Of the fit K (K + l)^-1 = H the
    residual of a row that was left out is r_i / (1 - H_ii - 1/n), the 1/n for the mean.
    """
    centre, scale = features.mean(0), features.std(0)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    x, y = (features - centre) / scale, targets - targets.mean(0)
    kernel = x @ x.T
    level = float(kernel.diagonal().mean()) or 1.0
    values, vectors = torch.linalg.eigh(kernel)
    values = values.clamp_min(0)
    best: tuple[float, Tensor] | None = None
    for penalty in PENALTIES:
        shrunk = values / (values + penalty * level)
        fit = (vectors * shrunk) @ vectors.T
        left = (1 - fit.diagonal() - 1 / len(x)).clamp_min(1e-6)
        error = float(((y - fit @ y) / left[:, None]).abs().mean())
        if best is None or error < best[0]:
            dual = (vectors / (values + penalty * level)) @ (vectors.T @ y)
            best = (error, x.T @ dual)
    assert best is not None
    return best[0], centre, scale, best[1]


LABEL_COUNT_ATTACKS.add("learned-counts", LearnedCounts())

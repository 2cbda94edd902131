"""RMIA (Zarifzadeh et al., ICML 2024), offline: a candidate against the public images, under the victim's model and
under shadow models that were trained without it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from sklearn.metrics import roc_auc_score
from torch import Generator, Tensor

from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.inference.registry import INFERENCE_ATTACKS, Pool, Seen
from fluoroscope.attacks.inference.seen_model import MODEL, SeenModel, seen_models
from fluoroscope.attacks.inference.shadows import client, told_defence
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.types import Capability, LabelledImages, Observation

SHARES = (0.0, 0.3, 0.6, 0.9, 1.0)
"""Values of `a` that are rehearsed."""
_LEAST = 1e-300
"""A probability that float64 would take for 0."""


def marginal(outside: Tensor, a: float) -> Tensor:
    """Pr(x) from models without x: the mean of those without it and, as a line through 1 estimates them, of those with
    it, ((1 + a) Pr(x)_out + 1 - a) / 2 (Zarifzadeh et al., the offline variant)."""
    return ((1 + a) * outside + 1 - a) / 2


def relative_likelihoods(x: Tensor, x_marginal: Tensor, z: Tensor, z_marginal: Tensor, gamma: float) -> Tensor:
    """The share of the population z that x exceeds: Pr_z[LR(x, z) >= gamma], (n,), with LR(x, z) =
    (Pr(x|model) / Pr(x)) / (Pr(z|model) / Pr(z)) (Zarifzadeh et al., the relative likelihood ratio)."""
    ratios = (x / x_marginal)[:, None] / (z / z_marginal)[None, :]
    return (ratios >= gamma).double().mean(1)


@dataclass(frozen=True, eq=False)
class PoolRounds:
    """Shadow rounds on the pool, and what their models make of candidates and pool: probabilities of the own class."""

    candidates: Tensor
    """(shadows, candidates): none of them was trained on."""
    pool: Tensor
    """(shadows, pool)."""
    inside: Tensor
    """(shadows, pool), bool: who was trained on."""

    def outside(self, without: int | None = None) -> Tensor:
        """The mean over the models that were trained without the image, (pool,); one model may be left out too."""
        counted = ~self.inside
        if without is not None:
            counted[without] = False
        found = torch.where(counted, self.pool, 0.0).sum(0) / counted.sum(0).clamp_min(1)
        every = self.pool if without is None else self.pool[torch.arange(len(self.pool)) != without]
        return torch.where(counted.any(0), found, every.mean(0))


@dataclass(frozen=True)
class Rmia:
    """How often a candidate's likelihood ratio exceeds that of a public image, in the model that a client sent."""

    needs: ClassVar[frozenset[Capability]] = MODEL | SIMULATION | {Capability.UPDATE}

    shadows: int = 8
    gamma: float = 1.0
    """The paper takes 2 for models trained from scratch; those of one round differ by less."""
    a: float | None = None
    """How far a model with an image lies above one without; None: rehearsed on shadows, as the paper proposes."""

    def run(self, observations: Seen, candidates: LabelledImages, rng: Generator, pool: Pool = None) -> Tensor:
        """A row per observation; each is played by itself."""
        models = seen_models("rmia", observations, self.needs)
        if pool is None or len(pool) < 2:
            raise Misconfigured("rmia compares with images of its own; give two or more as pool.")
        if self.shadows < 2:
            raise Misconfigured(f"rmia needs two shadows or more, not {self.shadows}.")
        return torch.stack(
            [self._scores(seen, model, candidates, pool, rng) for seen, model in zip(observations, models, strict=True)]
        )

    def _scores(
        self, seen: Observation, model: SeenModel, candidates: LabelledImages, pool: LabelledImages, rng: Generator
    ) -> Tensor:
        played = pool_rounds(seen, model, candidates, pool, self.shadows, rng)
        a = rehearsed_share(played, self.gamma) if self.a is None else self.a
        return relative_likelihoods(
            _probabilities(model, candidates),
            marginal(played.candidates.mean(0), a),
            _probabilities(model, pool),
            played.outside(),  # nobody trained on the population: no model with z is to be thought of
            self.gamma,
        )


def pool_rounds(
    seen: Observation,
    model: SeenModel,
    candidates: LabelledImages,
    pool: LabelledImages,
    shadows: int,
    rng: torch.Generator,
) -> PoolRounds:
    """Rounds of a client in the victim's place with its number of images, of at most half of the pool: a half and the
    other half by turns. Where that is too few, they come again, for as many steps."""
    setup = Setup.of(seen)
    train = client(setup.network, setup.state, setup.training, told_defence(seen))
    images, half = setup.training.images, max(1, len(pool) // 2)
    found: list[tuple[Tensor, Tensor]] = []
    inside = torch.zeros(shadows, len(pool), dtype=torch.bool)
    order = torch.arange(len(pool))
    for number in range(shadows):
        order = order.roll(half) if number % 2 else torch.randperm(len(pool), generator=rng)
        chosen = order[:half][: min(images, half)]
        inside[number, chosen] = True
        taken = chosen.repeat(-(-images // len(chosen)))[:images]
        records = LabelledImages(pool.images[taken], pool.labels[taken])
        sent = replace(model, state=train(records, rng))
        found.append((_probabilities(sent, candidates), _probabilities(sent, pool)))
    return PoolRounds(torch.stack([each[0] for each in found]), torch.stack([each[1] for each in found]), inside)


def rehearsed_share(played: PoolRounds, gamma: float, shares: Sequence[float] = SHARES) -> float:
    """The `a` that tells best who was in a shadow's training, each shadow attacked with the help of the others."""

    def told(a: float) -> float:
        aucs = []
        for victim, inside in enumerate(played.inside):
            if not inside.any() or inside.all():
                continue
            outside, seen = played.outside(without=victim), played.pool[victim]
            others = ~inside
            scores = relative_likelihoods(seen, marginal(outside, a), seen[others], outside[others], gamma)
            aucs.append(float(roc_auc_score(inside.numpy(), scores.numpy())))
        return sum(aucs) / max(1, len(aucs))

    return max(shares, key=told)


def _probabilities(model: SeenModel, records: LabelledImages) -> Tensor:
    if records.labels.ndim != 1:
        raise Unsupported(
            f"rmia asks for the probability of one true class per image, and the labels have the shape "
            f"{tuple(records.labels.shape)}; for several findings per image use the attack 'loss'."
        )
    chosen = model.logits(records).softmax(1).gather(1, records.labels.cpu()[:, None])[:, 0]
    return chosen.clamp_min(_LEAST)


INFERENCE_ATTACKS.add("rmia", Rmia())

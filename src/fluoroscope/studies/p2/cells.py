"""P2's experiments, once each: a malicious round, the attacks it is compared with, and what the loot is worth."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch.func import functional_call

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.imprint import Adjacent, Brightness, MediLeak, Peeling, Subspace, merged
from fluoroscope.attacks.imprint.features import Features
from fluoroscope.cells import CellContext, Result
from fluoroscope.data import Request, load
from fluoroscope.federation.client_round import client_round
from fluoroscope.federation.local_training import local_training
from fluoroscope.models import Architecture
from fluoroscope.rng import generator
from fluoroscope.scenarios.malicious_round import (
    Aggregation,
    Cast,
    Decoder,
    RecoveryResult,
    cast,
    malicious_round,
    participants_of,
    scored,
)
from fluoroscope.scores.downstream import downstream
from fluoroscope.scores.reconstruction import score
from fluoroscope.studies.timed_attack import timed_attack
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Adam, ImageSet, LocalTraining, PrivateBatch, Sgd

CLIENTS = 5
SHOWN = 6
NEURONS = 64
"""For one small batch."""
OUTPUTS = 10
"""Of the network that is inverted: with two, an untrained LeNet-5 is sure of one class, and there is no gradient."""
FEATURES: dict[str, Features | None] = {"brightness": Brightness(), "smooth": None}
DECODERS: dict[str, Decoder] = {"adjacent": Adjacent(), "peeling": Peeling(), "subspace": Subspace()}


@dataclass(frozen=True)
class Leak:
    """P2 section V: five clients, one of them the victim, and what the server makes of their sum."""

    images: int
    k: int
    """Neurons of the first layer, all of them counted."""
    features: Literal["brightness", "smooth"] = "smooth"
    """smooth: three random projections; one where there are hardly more neurons than images."""
    decoder: Literal["adjacent", "peeling", "subspace"] = "subspace"
    local_iterations: int = 1
    mini_batches: bool = False
    """Each iteration takes other images, a share of them all; else each takes all of them."""
    lr: float = 0.01
    aggregation: Aggregation = "secagg+"
    size: int = 28
    model: str = "p3-cnn"
    front: Literal["gated", "plain", "sparse"] = "gated"
    rounds: int = 1
    victims: int = 1
    """In turn, one a round."""
    data: str = "phantom/chest"

    @property
    def settings(self) -> dict[str, Any]:
        names = ("data", "images", "size", "k", "features", "decoder", "local_iterations")
        more = ("mini_batches", "lr", "aggregation", "model", "front", "rounds", "victims")
        return {name: getattr(self, name) for name in (*names, *more)}

    @property
    def attack(self) -> tuple[MediLeak, Decoder]:
        return (
            MediLeak(self.k, FEATURES[self.features], self.front, steady=self.mini_batches),
            DECODERS[self.decoder],
        )

    def training(self, images: int) -> LocalTraining:
        batch = -(-images // self.local_iterations) if self.mini_batches else images
        return LocalTraining(Sgd(self.lr), images, batch, 1 if self.mini_batches else self.local_iterations)

    def run(self, context: CellContext) -> Result:
        found = loaded(self.data, self.size, self.images * max(1, self.victims), context.seed)
        held = cast(found, CLIENTS, self.images, context.seed)
        result = [self.result(found, held, context, i) for i in range(self.rounds)]
        first = result[0]
        if self.rounds > 1:  # what was harvested from each victim, each image once
            first = self._harvested(held, result)
        shown = first.score.recovered.nonzero()[:SHOWN, 0]
        originals = torch.cat([held.clients[i].images for i in range(self.victims)])
        return Result(
            {
                "rate": first.score.rate.mean,
                "rate_low": first.score.rate.low,
                "rate_high": first.score.rate.high,
                "foreseen": first.foreseen,
                "wrong": first.wrong,
                "sure_wrong": first.sure_wrong,
                "psnr": first.psnr,
                "ssim": first.ssim,
                "seconds": first.seconds,
                "round_seconds": first.round_seconds,
            },
            images={
                "originals": originals[shown],
                "recovered": first.recovered.images[first.score.reconstruction[shown]].clamp(0, 1),
            },
        )

    def result(self, found: ImageSet, held: Cast, context: CellContext, number: int) -> RecoveryResult:
        """What one round gives, the first being round 0."""
        context.on_progress(number / self.rounds)
        agreed = Architecture(self.model, found.channels, len(found.classes), self.size)
        attack, decoder = self.attack
        participants = participants_of(held.clients, self.training)
        victim = number % self.victims
        seed, auxiliary = context.seed, held.auxiliary
        return malicious_round(
            agreed, None, participants, victim, auxiliary, attack, decoder, self.aggregation, seed, number + 1
        )

    def _harvested(self, held: Cast, result: list[RecoveryResult]) -> RecoveryResult:
        """All rounds together, against the images of all victims."""
        batches = [held.clients[i] for i in range(self.victims)]
        patients = tuple(patient for batch in batches for patient in batch.patients)
        everyone = PrivateBatch(
            torch.cat([b.images for b in batches]), torch.cat([b.labels for b in batches]), patients
        )
        (together,) = participants_of([everyone], self.training)
        loot = merged([each.recovered for each in result])
        return scored(together, loot, sum(e.round_seconds for e in result), sum(e.seconds for e in result))


@dataclass(frozen=True)
class Compared:
    """P2 fig. 4: an optimisation attack on one small batch, from the update of that client alone."""

    name: str
    images: int
    model: str = "lenet5"
    """Without the crafted layers."""
    size: int = 28
    lr: float = 0.01
    data: str = "phantom/chest"

    @property
    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("data", "images", "size", "name", "model", "lr")}

    @property
    def attack(self) -> object:
        return MediLeak(NEURONS) if self.name == "medileak" else ATTACKS.get(self.name)

    def run(self, context: CellContext) -> Result:
        found = loaded(self.data, self.size, max(self.images, 60), context.seed)
        held = cast(found, CLIENTS, self.images, context.seed)
        if self.name == "medileak":
            leak = Leak(self.images, NEURONS, size=self.size, model=self.model, lr=self.lr, data=self.data)
            result = leak.result(found, held, context, 0)
            images, seconds = result.recovered.images, result.seconds
        else:
            images, seconds = self._inverted(found, held, context)
        scores = score(images, held.clients[0].images, held.auxiliary.images.mean(0))
        ssims, psnrs = ([getattr(each, name) for each in scores] for name in ("ssim", "psnr"))
        missing = self.images - len(scores)  # an image that is not found counts 0
        return Result(
            {
                "ssim": sum(ssims) / self.images,
                "psnr": sum(psnrs) / max(1, len(psnrs)),
                "ssim_prior": sum(each.ssim_prior or 0.0 for each in scores) / max(1, len(scores)),
                "missing": missing,
                "seconds": seconds,
            },
            images={"originals": held.clients[0].images[:SHOWN], "recovered": images[:SHOWN].clamp(0, 1)},
        )

    def _inverted(self, found: ImageSet, held: Cast, context: CellContext) -> tuple[torch.Tensor, float]:
        """A curious server's: it sees the victim's own update, without secure aggregation."""
        victims = held.clients[0]
        training = LocalTraining(Sgd(self.lr), len(victims), len(victims))
        architecture = Architecture(self.model, found.channels, max(OUTPUTS, len(found.classes)), self.size)
        before = architecture.build(context.seed).state_dict()
        rng = generator(context.seed, "client", "client-1", "round", 1)
        record = client_round(architecture, before, victims, training, rng, client="client-1").record
        seen = observe(record, THREATS.get("curious-server"), held.auxiliary.images.mean(0))
        rng = generator(context.seed, "p2", self.name)
        (guess,), seconds = timed_attack(ATTACKS.get(self.name), [seen], rng, context)
        return guess.images, seconds


@dataclass(frozen=True)
class Downstream:
    """P2 table II: a classifier that the attacker trained on its own images, on the originals and on the loot."""

    images: int
    k: int
    size: int = 28
    scored_on: Literal["originals", "recovered"] = "recovered"
    model: str = "small-cnn"
    epochs: int = 20
    data: str = "phantom/chest"

    @property
    def settings(self) -> dict[str, Any]:
        return {n: getattr(self, n) for n in ("data", "images", "size", "k", "model", "epochs", "scored_on")}

    @property
    def attack(self) -> tuple[MediLeak, Decoder]:
        return self._leak.attack

    @property
    def _leak(self) -> Leak:
        return Leak(self.images, self.k, size=self.size, data=self.data)

    def run(self, context: CellContext) -> Result:
        found = loaded(self.data, self.size, self.images, context.seed)
        held = cast(found, CLIENTS, self.images, context.seed)
        victims = held.clients[0]
        images, labels = victims.images, victims.labels
        if self.scored_on == "recovered":
            result = self._leak.result(found, held, context, 0)
            known = result.score.recovered
            images, labels = result.recovered.images[result.score.reconstruction[known]].clamp(0, 1), labels[known]
        return Result(
            {
                "rate": len(images) / len(victims),
                **asdict(downstream(self._classified(found, held, images, context), labels)),
            }
        )

    def _classified(self, found: ImageSet, held: Cast, images: torch.Tensor, context: CellContext) -> torch.Tensor:
        """By a network that saw the attacker's own images only."""
        own = held.auxiliary
        model = Architecture(self.model, found.channels, len(found.classes), self.size).build(context.seed)
        training = LocalTraining(Adam(1e-3), len(own), 32, self.epochs)
        state = local_training(
            model, model.state_dict(), own, training, generator(context.seed, "p2", "classifier")
        ).state
        with torch.no_grad():
            logits: torch.Tensor = functional_call(model.eval(), state, (images,))
        return logits


def loaded(data: str, size: int, victims: int, seed: int) -> ImageSet:
    """Enough for five clients with so many images and the attacker's tenth; of a user's set, all."""
    needed = max(3000 if size < 100 else 600, round(victims * CLIENTS / 0.85))
    return load(data, Request(size=size, images=needed if data.startswith("phantom/") else None, seed=seed))

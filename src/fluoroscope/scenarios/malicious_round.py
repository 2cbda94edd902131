"""One round with a malicious server, from the division of the images to what was recovered."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from fluoroscope.attacks.imprint import Crafted, MediLeak, Recovered
from fluoroscope.attacks.imprint.craft import FIRST
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.guard import Mod
from fluoroscope.federation.secure_aggregation import Participant, SecAgg, Sent, secure_round
from fluoroscope.rng import generator
from fluoroscope.scenarios.foreseen import foreseen_rate
from fluoroscope.scores.recovery import Recovery, recovery
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import ImageSet, LocalTraining, Network, PrivateBatch, State, UpdateRecord

Decoder = Callable[[Crafted, State], Recovered]
Aggregation = Literal["secagg+", "plain sum"]
SURE = 0.95
"""Confidence from which the attacker takes an image for recovered."""


@dataclass(frozen=True, eq=False)
class Cast:
    """Who holds what: no patient's images on two sides."""

    clients: tuple[PrivateBatch, ...]
    auxiliary: PrivateBatch
    """The attacker's own."""


def cast(images: ImageSet, clients: int, each: int, seed: int, auxiliary: float = 0.1, fewest: int = 50) -> Cast:
    """The first client with `each` images, the others with as many or what is left; 10 % are the attacker's (P2)."""
    batch = images.batch
    order = torch.randperm(len(batch), generator=generator(seed, "p2", "cast")).tolist()
    by_patient: dict[str, list[int]] = {}
    for i in order:
        by_patient.setdefault(batch.patients[i], []).append(i)
    patients = list(by_patient.values())
    wanted = max(fewest, round(auxiliary * len(batch)))
    own, first = _share(patients, wanted), _share(patients, each)
    left = sum(map(len, patients))
    fair = min(each, left // (clients - 1))
    if len(own) < wanted or len(first) < each or fair < 1:
        raise Misconfigured(
            f"{images.name} has {len(batch)} images: too few for a victim with {each}, {clients - 1} other clients and "
            f"{wanted} auxiliary images. Use fewer for the victim, or more data."
        )
    others = [_share(patients, fair) for _ in range(clients - 1)]
    return Cast(tuple(batch.subset(held) for held in (first, *others)), batch.subset(own))


def _share(patients: list[list[int]], count: int) -> list[int]:
    """So many images of patients that are taken off the list, or all that there are."""
    held: list[int] = []
    while patients and len(held) < count:
        held += patients.pop()
    return held[:count]


@dataclass(frozen=True, eq=False)
class RecoveryResult:
    """What a malicious server has after one round, and how right it is."""

    victim: str
    recovered: Recovered
    score: Recovery
    wrong: int
    """Recovered images that are none of the victim's."""
    sure_wrong: int
    """Of these, images that the attacker is sure of."""
    round_seconds: float
    seconds: float
    """Of the recovery alone."""
    foreseen: float | None = None
    """The rate that a rehearsal on the attacker's own images gave, without any victim."""

    @property
    def psnr(self) -> float | None:
        return _mean(self.score.psnr[self.score.recovered])

    @property
    def ssim(self) -> float | None:
        return _mean(self.score.ssim[self.score.recovered])


def malicious_round(
    agreed: Network,
    state: State | None,
    participants: Sequence[Participant],
    victim: int,
    auxiliary: PrivateBatch,
    attack: MediLeak,
    decoder: Decoder,
    aggregation: Aggregation,
    seed: int,
    server_round: int = 1,
    settings: SecAgg | None = None,
    mods: Sequence[Mod] = (),
) -> RecoveryResult:
    """Craft, send, sum, recover. The attack sees the sum and what it crafted; the truth only scores it."""
    target = participants[victim]
    rng = generator(seed, "p2", "craft", server_round)
    crafted = attack.craft(agreed, target.training, auxiliary.images, auxiliary.labels, rng, state)
    began = time.perf_counter()
    if aggregation == "secagg+":
        sent = [
            Sent(crafted.network, crafted.victim if i == victim else crafted.others) for i in range(len(participants))
        ]
        after = secure_round(participants, sent, server_round, seed, settings, mods).mean
    else:
        # To the crafted layer's sum the others add exactly nothing, and are not trained.
        after = target.round(crafted.network, crafted.victim, server_round, seed).sent
    summed = time.perf_counter()
    names = (f"{FIRST}.weight", f"{FIRST}.bias")
    before, after = ({name: state[name] for name in names} for state in (crafted.victim, after))
    cohort = tuple(each.name for each in participants)
    record = UpdateRecord(server_round, cohort, crafted.network, target.training, before, after)
    seen = observe(record, THREATS.get("malicious-server"))
    assert seen.update is not None
    found = decoder(crafted, seen.update)
    ended = time.perf_counter()
    clients = len(participants) if aggregation == "secagg+" else 1
    expected = foreseen_rate(crafted, decoder, clients, generator(seed, "p2", "foresee", server_round))
    return replace(scored(target, found, summed - began, ended - summed), foreseen=expected)


def scored(target: Participant, found: Recovered, round_seconds: float, seconds: float) -> RecoveryResult:
    """What was found against the victim's images."""
    score = recovery(found.images, target.batch.images)
    right = torch.zeros(len(found), dtype=torch.bool)
    right[score.reconstruction[score.recovered]] = True
    sure = int((~right & (found.confidence > SURE)).sum())
    return RecoveryResult(target.name, found, score, int((~right).sum()), sure, round_seconds, seconds)


def participants_of(clients: Sequence[PrivateBatch], training: Callable[[int], LocalTraining]) -> list[Participant]:
    """Named clients; the training of each follows from how many images it has."""
    return [Participant(f"client-{i + 1}", batch, training(len(batch))) for i, batch in enumerate(clients)]


def _mean(values: Tensor) -> float | None:
    return float(values.double().mean()) if len(values) else None

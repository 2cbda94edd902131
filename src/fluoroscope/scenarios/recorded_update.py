"""One attack on one recorded update: what the attacker saw, its guess, and the scores where the truth is at hand."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from fluoroscope.attacks import Attack
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.defences import Chain
from fluoroscope.errors import BadInput, FluoroscopeError, Unsupported
from fluoroscope.federation.plan import parse_plan
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import Task, load_task
from fluoroscope.rng import generator
from fluoroscope.scenarios.curious_server import THREAT, seen_by, to_device, with_known_labels
from fluoroscope.scenarios.isolation import run_isolated
from fluoroscope.scenarios.public_set import public_set
from fluoroscope.scenarios.rehearsal import Rehearsal, rehearse
from fluoroscope.scores.reconstruction import ImageScore, score
from fluoroscope.threat_models import THREATS
from fluoroscope.threat_models.needs import missing
from fluoroscope.types import (
    Capability,
    Knowledge,
    LabelledImages,
    Observation,
    PrivateBatch,
    Reconstruction,
    UpdateRecord,
)


@dataclass(frozen=True, eq=False)
class Evidence:
    """A record, and what its run can still say about it."""

    record: UpdateRecord
    truth: PrivateBatch | None
    """The client's images, for scores and for labels that are granted. None where the plan's data is not at hand."""
    prior: Tensor | None
    """The mean of the partition's auxiliary images."""
    why_not: str
    """Why truth or prior are missing; empty where both are there."""
    public: LabelledImages | None = None
    """The partition's auxiliary images, or others in their place."""
    defence: Chain | None = None
    """As the plan has it; None where the plan's images are not at hand."""

    @property
    def client(self) -> str:
        return self.record.cohort[0]


@dataclass(frozen=True, eq=False)
class Attacked:
    """An attack that is over."""

    attack: str
    seed: int
    evidence: Evidence
    observation: Observation
    guess: Reconstruction
    scores: list[ImageScore]
    """Empty where the truth is not at hand."""
    seconds: float

    def plain(self) -> dict[str, Any]:
        """As data: what `--json` prints and findings.json holds."""
        needs = sorted(Capability, key=list(Capability).index)
        unknown = missing(self.observation, needs)
        return {
            "attack": self.attack,
            "client": self.evidence.client,
            "round": self.evidence.record.round,
            "images": self.evidence.record.training.images,
            "seed": self.seed,
            "known": {need.value: need not in unknown for need in needs},
            "objective": self.guess.objective,
            "restarts": list(self.guess.restarts),
            "diverged": self.guess.diverged,
            "nothing": self.guess.nothing or None,
            "labels": None if self.guess.labels is None else self.guess.labels.tolist(),
            "seconds": self.seconds,
            "scores": [asdict(image) for image in self.scores] or None,
        }


def gather(folder: Path, server_round: int | None, client: str | None) -> Evidence:
    """The record of a round (the last that has any) and a client (the one with the fewest images)."""
    store = RecordStore(folder)
    header = store.header
    if server_round is None:
        kept = [r for r in store.rounds() if store.recorded(r) and (client is None or client in store.recorded(r))]
        if not kept:
            raise BadInput(
                f"{folder} has no recorded update{f' of {client}' if client else ''}; see `records {folder}`."
            )
        server_round = kept[-1]
    if client is None:
        entries = store.manifest(server_round).clients if server_round in store.rounds() else {}
        recorded = {name: entry.training.images for name, entry in entries.items() if entry.recorded}
        if not recorded:
            raise BadInput(f"{folder} has no record of round {server_round}; see `fluoroscope records {folder}`.")
        client = min(recorded, key=lambda name: recorded[name])
    record = store.load(server_round, client)
    try:
        task = load_task(parse_plan(header.plan))
    except FluoroscopeError as problem:
        return Evidence(record, None, None, f"the images of the plan cannot be loaded: {problem}")
    if task.digest != header.data:
        return Evidence(record, None, None, f"{task.images.name} no longer holds the images of this run.")
    prior = task.public_mean
    why_not = "" if prior is not None else "the partition has no auxiliary images: set partition.auxiliary in the plan."
    return Evidence(record, _truth(task, client), prior, why_not, task.public_images, task.defence)


def with_public(evidence: Evidence, source: str, seed: int) -> Evidence:
    """The same for an attacker who has other public images than the plan's; its prior is their mean."""
    public = public_set(source, evidence.record.network, evidence.record.training, seed)
    return replace(evidence, public=public, prior=public.images.mean(0))


def rehearse_for(
    evidence: Evidence,
    granted: Iterable[Capability],
    attacks: Mapping[str, Attack],
    seed: int,
    on_progress: Callable[[int, int], None],
) -> Rehearsal:
    """Which of the attacks a curious server would choose against this record. The truth has no part in it."""
    if evidence.public is None:
        raise Unsupported(f"auto rehearses on public images: give some with --public. {evidence.why_not}".rstrip())
    if Capability.LABELS in set(granted):
        raise Unsupported("auto chooses without the true labels: leave --grant labels out, or name an attack.")
    seen = _seen(evidence, THREATS.get(THREAT).granted(*granted), None)
    return rehearse(seen, attacks, seed, on_progress=on_progress)


def attack_record(
    name: str,
    attack: Attack,
    evidence: Evidence,
    granted: Iterable[Capability],
    seed: int,
    device: str,
    checkpoint: Path,
    on_iteration: Callable[[int, int], None],
) -> Attacked:
    """Run the attack on what a curious server sees of the record, and score its guess.

    The truth may be at hand here, so the attack runs in a process that does not have it.
    """
    granted = set(granted)
    knowledge = THREATS.get(THREAT).granted(*granted)
    labels = None
    if Capability.LABELS in granted:
        if evidence.truth is None:
            raise Unsupported(f"the true labels cannot be granted: {evidence.why_not}")
        labels, attack = evidence.truth.labels, with_known_labels(attack)
    if evidence.public is None and Capability.PUBLIC_IMAGES in attack.needs:
        raise Unsupported(f"{name} learns from public images: give some with --public. {evidence.why_not}".rstrip())
    if evidence.prior is None and Capability.PRIOR in attack.needs:
        raise Unsupported(f"{name} starts from a public prior, but {evidence.why_not}")
    seen = to_device(_seen(evidence, knowledge, labels), device)
    began = time.perf_counter()
    kept = Checkpoint(checkpoint, every_seconds=15)
    (guess,) = run_isolated(attack, [seen], generator(seed, "attack"), on_iteration, kept)
    seconds = time.perf_counter() - began
    truth = evidence.truth
    scores = [] if truth is None else score(guess.images.cpu(), truth.images, evidence.prior)
    return Attacked(name, seed, evidence, seen, guess, scores, seconds)


def _seen(evidence: Evidence, knowledge: Knowledge, labels: Tensor | None) -> Observation:
    seen = seen_by(evidence.record, knowledge, evidence.prior, labels)
    return replace(seen, public_images=evidence.public, defence=evidence.defence)


def _truth(task: Task, client: str) -> PrivateBatch:
    names = [split.name for split in task.clients]
    return task.train_batch(names.index(client))

"""What leaks from recorded updates under a defence that was not there: applied afterwards, and attacked."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fluoroscope.attacks import Attack
from fluoroscope.defences import Chain
from fluoroscope.errors import BadInput, Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import Task
from fluoroscope.rng import generator
from fluoroscope.scores.intervals import Interval, bootstrap_mean
from fluoroscope.scores.rdlv import mean_rdlv, rdlv
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import PrivateBatch, UpdateRecord


@dataclass(frozen=True, eq=False)
class Evidence:
    """One client's recorded rounds, with its images to score by."""

    task: Task
    client: str
    records: tuple[UpdateRecord, ...]
    truth: PrivateBatch
    prior: Tensor


@dataclass(frozen=True)
class Leak:
    """What the attack reached, over all reconstructions of all draws."""

    rdlv: Interval
    ssim: Interval
    reconstructions: int


def evidence_of(store: RecordStore, task: Task, client: str | None, rounds: int) -> Evidence:
    """The client with the fewest images, or the named one: its last recorded rounds, at most so many."""
    if task.digest != store.header.data:
        raise BadInput(f"{task.images.name} no longer holds the images of the run in {store.folder}.")
    if not task.partition.auxiliary:
        raise BadInput("the partition has no auxiliary images for the prior: set partition.auxiliary in the plan.")
    held = {split.name: len(split.train) for split in task.clients}
    if client is not None and client not in held:
        raise BadInput(f"there is no client {client!r}; the partition has {', '.join(held)}.")
    chosen = client or min(held, key=lambda name: held[name])
    kept = [r for r in store.rounds() if chosen in store.recorded(r)]
    if not kept:
        raise BadInput(f"{store.folder} has no recorded update of {chosen}; see `fluoroscope records {store.folder}`.")
    truth = task.train_batch(list(held).index(chosen))
    prior = task.images.batch.images[list(task.partition.auxiliary)].mean(0)
    return Evidence(task, chosen, tuple(store.load(r, chosen) for r in kept[-rounds:]), truth, prior)


def leak(
    evidence: Evidence,
    defence: Chain,
    attack: Attack,
    draws: int,
    seed: int,
    on_progress: Callable[[int, int], None] = lambda i, n: None,
) -> Leak:
    """Attack `draws` defended updates, over the recorded rounds in turn. The same seed draws the same noise, scaled."""
    if defence.cohort is not None:
        raise Unsupported(
            "a defence at the server does not stand between a client and the server: what it does about a curious "
            "client is another question. Choose one that works at the client."
        )
    seen = []
    for number in range(draws):
        record = evidence.records[number % len(evidence.records)]
        rng = generator(seed, "calibration", "draw", number)
        seen.append(observe(_defended(evidence, record, defence, rng), THREATS.get("curious-server"), evidence.prior))
    guesses = attack.run(seen, generator(seed, "calibration", "attack"), on_progress)
    scored = [rdlv(guess.images, evidence.truth.images, evidence.prior) for guess in guesses]
    leaked, similar = (torch.cat([getattr(each, name) for each in scored]) for name in ("values", "similarity"))
    bootstrap = generator(seed, "calibration", "bootstrap")
    return Leak(mean_rdlv(leaked, bootstrap), bootstrap_mean(similar, bootstrap), len(leaked))


def _defended(evidence: Evidence, record: UpdateRecord, defence: Chain, rng: torch.Generator) -> UpdateRecord:
    """The record as this defence would have let it leave; a defence of the training trains that round again."""
    if defence.training is None:
        return defence.send(record, rng)
    before = {**record.state_before, **record.buffers_before}
    done = client_round(record.network, before, evidence.truth, record.training, rng, defence)
    return replace(done.record, round=record.round, cohort=record.cohort)

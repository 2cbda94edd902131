"""Whom a setting is tried on: clients simulated from public images, or, where that is asked for, a real client."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from fluoroscope.calibration.measured import Leak
from fluoroscope.defences import Chain
from fluoroscope.errors import BadInput
from fluoroscope.federation.client_round import client_round
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import Task
from fluoroscope.rng import generator
from fluoroscope.scenarios.public_set import public_set
from fluoroscope.scenarios.simulated_victims import SplitPublic, seen_of_victim, split_public
from fluoroscope.scenarios.stand_ins import held_out_indices
from fluoroscope.scores.intervals import bootstrap_mean
from fluoroscope.scores.null import against_others
from fluoroscope.scores.similarity import ssim_matrix
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import (
    LabelledImages,
    LocalTraining,
    Observation,
    PrivateBatch,
    Reconstruction,
    UpdateRecord,
    split_state,
)

THREAT = "curious-server"
_SETS = 8
"""Groups of other patients beside one real client."""


class Stage(Protocol):
    """Victims of a client's size, each of whom can be seen behind any defence."""

    @property
    def looked_at(self) -> str:
        """Whose images the search looks at, in words."""
        ...

    @property
    def victims(self) -> int: ...

    @property
    def content(self) -> Any:  # noqa: ANN401  # anything that has a digest
        """What a measurement on this stage depends on."""
        ...

    def round_of(self, defence: Chain) -> Observation:
        """What an attacker knows before any update: what it rehearses from."""
        ...

    def seen(self, defence: Chain, number: int, seed: int) -> Observation:
        """What leaves the victim of this number behind the defence."""
        ...

    def score(self, attack: str, guesses: Sequence[Reconstruction], seed: int) -> Leak: ...


@dataclass(frozen=True, eq=False)
class Round:
    """The round that is attacked: the last that was recorded, from the global model that began it."""

    task: Task
    number: int
    state: dict[str, Tensor]
    client: str
    training: LocalTraining

    def known(self, public: LabelledImages, defence: Chain) -> Observation:
        """To a curious server with these public images, before any update."""
        parameters, buffers = split_state(self.state, self.task.buffer_names)
        return Observation(
            THREATS.get(THREAT),
            self.number,
            (self.client,),
            network=self.task.network,
            training=self.training,
            state_before=parameters,
            buffers_before=buffers,
            public_mean=public.images.mean(0),
            public_images=public,
            defence=defence,
        )


@dataclass(frozen=True, eq=False)
class SimulatedClients:
    """Public patients in the client's place: nothing of a real update is looked at."""

    round: Round
    split: SplitPublic
    looked_at: str

    @property
    def victims(self) -> int:
        return len(self.split.victims)

    @property
    def content(self) -> Any:  # noqa: ANN401
        everybody = [victim.images for victim in self.split.victims]
        return [self.round.client, self.round.number, self.round.state, everybody, self.split.learning.images]

    def round_of(self, defence: Chain) -> Observation:
        return self.round.known(self.split.learning, defence)

    def seen(self, defence: Chain, number: int, seed: int) -> Observation:
        rng = generator(seed, "calibration", "victim", number)
        return seen_of_victim(self.round_of(defence), self.split, self.split.victims[number], rng)

    def score(self, attack: str, guesses: Sequence[Reconstruction], seed: int) -> Leak:
        truth = [victim.images for victim in self.split.victims]
        return scored(attack, guesses, truth, self.split.learning.images.mean(0), seed)


@dataclass(frozen=True, eq=False)
class RecordedClient:
    """A real client's recorded updates, as this defence would have let them leave: a choice by them is a release."""

    round: Round
    truth: PrivateBatch
    public: LabelledImages
    draws: int
    records: tuple[UpdateRecord, ...]

    @property
    def looked_at(self) -> str:
        return f"the private updates of {self.round.client}: the choice itself tells something of them"

    @property
    def victims(self) -> int:
        return self.draws

    @property
    def content(self) -> Any:  # noqa: ANN401
        states = [record.state_after for record in self.records]
        return [self.round.client, states, self.truth.images, self.public.images, self.draws]

    def round_of(self, defence: Chain) -> Observation:
        return self.round.known(self.public, defence)

    def seen(self, defence: Chain, number: int, seed: int) -> Observation:
        record = self.records[number % len(self.records)]
        rng = generator(seed, "calibration", "draw", number)
        known = self.round_of(defence)
        left = self._left(record, defence, rng)
        return observe(left, known.knowledge, known.public_mean, public_images=self.public, defence=defence)

    def score(self, attack: str, guesses: Sequence[Reconstruction], seed: int) -> Leak:
        """All draws are of one patient group: guess by guess, beside groups of public patients."""
        together = Reconstruction(
            torch.cat([guess.images.cpu() for guess in guesses]),
            None,
            0.0,
            nothing="nothing in any draw" if all(guess.nothing for guess in guesses) else "",
        )
        found = scored(attack, [together], [self.truth.images], self.public.images.mean(0), seed, self._others)
        return replace(found, gave_up=sum(bool(guess.nothing) for guess in guesses), victims=len(guesses))

    @cached_property
    def _others(self) -> list[Tensor]:
        groups = split_public(self.public, _SETS, len(self.truth), generator(0, "calibration", "others"))
        return [victim.images for victim in groups.victims]

    def _left(self, record: UpdateRecord, defence: Chain, rng: torch.Generator) -> UpdateRecord:
        """The record as this defence would have let it leave; a defence of the training trains that round again."""
        own = self.round.task.defence.parts  # which it has met
        added = Chain(defence.parts[len(own) :])
        if added.training is None:
            return added.send(record, rng)
        before = {**record.state_before, **record.buffers_before}
        done = client_round(record.network, before, self.truth, record.training, rng, defence)
        return replace(done.record, round=record.round, cohort=record.cohort)


def scored(
    attack: str,
    guesses: Sequence[Reconstruction],
    truth: Sequence[Tensor],
    prior: Tensor,
    seed: int,
    others: Sequence[Tensor] = (),
) -> Leak:
    """The guesses beside their null; RDLV and SSIM of all of them too."""
    lost = [bool(guess.nothing) for guess in guesses]
    images = [prior.expand_as(guess.images) if guess.nothing else guess.images.cpu() for guess in guesses]
    rng = generator(seed, "calibration", "bootstrap")
    beside = against_others(images, truth, prior, rng, others, lost)
    likeness = ssim_matrix(torch.cat(images), torch.cat(list(truth)))
    about, of = (
        torch.arange(len(each)).repeat_interleave(torch.tensor(list(map(len, each)))) for each in (images, truth)
    )
    nearest = likeness.where(about[:, None] == of, -torch.inf).max(1).values
    return Leak(
        attack=attack,
        leak=beside.leak,
        p_value=beside.p_value,
        rdlv=beside.own,
        ssim=bootstrap_mean(nearest, rng),
        told_apart=beside.told_apart,
        chance=beside.chance,
        line_up=beside.line_up,
        line_up_chance=beside.line_up_chance,
        gave_up=sum(lost),
        victims=len(guesses),
    )


def stage_of(
    store: RecordStore, task: Task, client: str | None, victims: int, draws: int | None, public: str | None, seed: int
) -> Stage:
    """The client with the fewest images, or the named one: simulated, or with `draws` its own records."""
    if task.digest != store.header.data:
        raise BadInput(f"{task.images.name} no longer holds the images of the run in {store.folder}.")
    held = {split.name: len(split.train) for split in task.clients}
    if client is not None and client not in held:
        raise BadInput(f"there is no client {client!r}; the partition has {', '.join(held)}.")
    chosen = client or min(held, key=lambda name: held[name])
    number = list(held).index(chosen)
    kept = [r for r in store.rounds() if chosen in store.recorded(r)]
    if not kept:
        raise BadInput(f"{store.folder} has no recorded update of {chosen}; see `fluoroscope records {store.folder}`.")
    training = task.local_training(number, task.round_config(kept[-1]))
    before = dict(store.global_state(kept[-1] - 1))
    at = Round(task, kept[-1], before, chosen, training)
    images = task.public_images if public is None else public_set(public, task.network, training, seed)
    if images is None:
        raise BadInput(
            "the partition has no auxiliary images for the attackers: set partition.auxiliary in the plan, or give "
            "public ones with --public, such as phantom/chest."
        )
    if draws is not None:
        records = tuple(store.load(r, chosen) for r in kept[-draws:])
        return RecordedClient(at, task.train_batch(number), images, draws, records)
    split = split_public(images, victims, held[chosen], generator(seed, "calibration", "patients"))
    source = "the plan's auxiliary images" if public is None else public
    if public is None and len(split.victims) < victims:
        split, source = _from_test_set(task, split, images, victims, held[chosen], source)
    return SimulatedClients(at, split, f"clients simulated from {source}")


def _from_test_set(
    task: Task, split: SplitPublic, public: LabelledImages, victims: int, images: int, source: str
) -> tuple[SplitPublic, str]:
    """Where public patients are few, the test set's stand in, if they are more: the attackers keep all public ones."""
    batch = task.images.batch
    patients = {batch.patients[i] for i in task.partition.test}
    count = min(victims, len(patients) // images)
    if count <= len(split.victims):
        return split, source
    chosen = tuple(batch.subset(places) for places in held_out_indices(task, count, images))
    return SplitPublic(public, chosen), "the plan's test images, which no client trains on"

"""Does a defence keep its claim? Canaries prove an epsilon from below, beside the one that is claimed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from fluoroscope.audit.cell import AuditCell
from fluoroscope.audit.kept import result_of
from fluoroscope.audit.plan import AuditPlan
from fluoroscope.audit.scored import Measured, scores_of
from fluoroscope.audit.sentence import Sentence
from fluoroscope.cells import CellContext, Result
from fluoroscope.defences.reconstruction_bound import mechanism_bound
from fluoroscope.federation.privacy import claimed, heaviest_cohort, participation
from fluoroscope.federation.task import Task, load_task
from fluoroscope.findings import Cell, Claim, Finding, Kind, Text
from fluoroscope.findings.claims import exceeds, refuted
from fluoroscope.rng import generator
from fluoroscope.scenarios.canaries import CanaryGames, empirical_epsilon
from fluoroscope.scenarios.canary_clients import cohort_games, update_games
from fluoroscope.scenarios.canary_records import record_games, strongest_canary
from fluoroscope.types import LocalTraining, PrivateBatch, UpdateRecord, split_state

_GAMES = 500
"""Of each kind: enough to prove most of an epsilon of 5."""
_WORK = 40_000
"""Images that the games of a record's claim train on at most, however few games that leaves ..."""
_LEAST = 50
"""... but no fewer than these."""
_CANDIDATES = 8
CONTRADICTED = (
    "CONTRADICTED: canaries prove a larger epsilon than is claimed, so this defence does not do what it says, and no "
    "epsilon of it counts"
)


@dataclass(frozen=True)
class ClaimTest(AuditCell):
    """One round's claim, on the model that the federation starts from. No image of a client is touched."""

    kind: ClassVar[Kind] = "claim"
    client: str = "client-1"
    """Whose number of images, batch and steps the claim is about."""
    victims: int = 8
    """Patients among whom a reconstruction would have to tell its own apart: chance is one of them."""

    @property
    def settings(self) -> dict[str, Any]:
        return {"client": self.client, "victims": self.victims}

    @property
    def rounds(self) -> int:
        """That are played, with the canary and without."""
        task = load_task(self.federation)
        return 2 * (_GAMES if task.defence.training is None else _games(self._training(task)))

    @property
    def images(self) -> int:
        """That are trained on."""
        task = load_task(self.federation)
        training = self._training(task)
        if task.defence.training is None:
            return 0
        return 2 * _games(training) * training.steps * min(training.batch_size, training.images)

    def run(self, context: CellContext) -> Result:
        return result_of(self.finding(context.seed))

    def finding(self, seed: int) -> Finding:
        """What the games prove, beside the claim; empty where there is none."""
        task = load_task(self.federation)
        training = self._training(task)
        part = participation(task, training, 1)
        claim, mechanism = task.defence.claim(part), task.defence.counted(part)
        if claim.epsilon is None or claim.delta is None or mechanism is None:
            return Finding()
        rng = generator(seed, "audit", "canaries")
        found = empirical_epsilon(self._played(task, training, claim.unit, claim.trust, rng), mechanism, claim.delta)
        # What a trusted server does hides nothing from it, and it is the server that reconstructs.
        bound = mechanism_bound(1 / self.victims, mechanism) if claim.trust == "local" else None
        return Finding(
            scores=scores_of(
                self.kind,
                epsilon=claim.epsilon,
                epsilon_lower=Measured(found.lower, found.games),
                epsilon_lower_any=Measured(found.lower_of_any, found.games),
                reconstruction_bound=Measured(bound, chance=1 / self.victims),
            )
        )

    def _training(self, task: Task) -> LocalTraining:
        place = [split.name for split in task.clients].index(self.client)
        return task.local_training(place, task.round_config(1))

    def _played(
        self, task: Task, training: LocalTraining, unit: str | None, trust: str | None, rng: torch.Generator
    ) -> CanaryGames:
        state = task.initial_state
        if unit == "record":
            pool = _public(task, rng)
            canary, _ = strongest_canary(task.network, state, training, pool)
            others = pool.subset([i % len(pool) for i in range(training.images - 1)]) if training.images > 1 else None
            return record_games(task.network, state, canary, others, training, task.defence, _games(training), rng)
        if trust == "local":
            record = UpdateRecord.between(task.network, state, state, training)
            return update_games(record, task.defence, _GAMES, rng)
        cohort, said = task.defence.cohort, task.plan.strategy
        assert cohort is not None  # nobody else claims for a client against all but the server
        parameters, _ = split_state(state, task.buffer_names)
        images = heaviest_cohort(task)
        return cohort_games(cohort, images, parameters, _GAMES // 2, rng, said.name, said.settings)


def claim_cells(plan: AuditPlan, label: str) -> list[ClaimTest]:
    """A test of the claim that a setting makes; none where it makes none that can be tested."""
    federation = plan.federation(label)
    task = load_task(federation)
    target = plan.audited_clients[0]
    place = [split.name for split in task.clients].index(target.name)
    training = task.local_training(place, task.round_config(1))
    if claimed(task, training, 1).epsilon is None or task.defence.counted(participation(task, training, 1)) is None:
        return []
    return [ClaimTest(label, federation.model_dump_json(), target.name, plan.audit.victims)]


def tested(cell: ClaimTest, seed: int) -> dict[str, Any]:
    """The numbers of a test by name, and whether they refute the claim."""
    scores = cell.finding(seed).scores
    return {name: score.value for name, score in scores.items()} | {"contradicted": exceeds(scores)}


def contradicted(cells: Sequence[Cell]) -> dict[str, Claim]:
    """By label, what is left of a claim that canaries refute."""
    return {cell.defence: Claim(statement=CONTRADICTED) for cell in cells if refuted(cell)}


def contradictions(cells: Sequence[Cell]) -> tuple[Text, ...]:
    """A sentence for each, with both numbers."""
    found = []
    for place, cell in enumerate(cells):
        if refuted(cell):
            proved = max(("epsilon_lower", "epsilon_lower_any"), key=lambda name: cell.scores[name].value or 0.0)
            said = Sentence().say(f"That “{cell.defence}” keeps what it claims: CONTRADICTED. ")
            said.say("Canaries prove an epsilon of at least ").number(place, proved, how=".3g").say(
                " in one round, and "
            )
            said.number(place, "epsilon", how=".3g").say(" is claimed: the defence does not do what it says.")
            found.append(said.text)
    return tuple(found)


def supported(cells: Sequence[Cell]) -> tuple[Text, ...]:
    """What canaries prove beside each claim that they leave standing, and what the claim leaves to a reconstruction."""
    found = []
    for place, cell in enumerate(cells):
        if cell.kind == "claim" and "epsilon" in cell.scores and not refuted(cell):
            said = Sentence().say(f"With “{cell.defence}” a round's epsilon lies between ")
            said.number(place, "epsilon_lower", how=".3g").say(" (proved by canaries) and ")
            said.number(place, "epsilon", how=".3g").say(" (claimed)")
            if cell.scores["reconstruction_bound"].value is not None:
                said.say("; so no reconstruction from one round is told apart more often than ")
                said.number(place, "reconstruction_bound").say(", where chance is ")
                said.number(place, "reconstruction_bound", "chance")
            found.append(said.say(".").text)
    return tuple(found)


def _games(training: LocalTraining) -> int:
    each = 2 * training.steps * min(training.batch_size, training.images)
    return max(_LEAST, min(_GAMES, _WORK // each))


def _public(task: Task, rng: torch.Generator) -> PrivateBatch:
    """Images to make canaries of: public ones where the plan has some, else noise."""
    public = list(task.partition.auxiliary)[:_CANDIDATES]
    if public:
        return task.images.batch.subset(public)
    shape = (_CANDIDATES, *task.images.batch.images.shape[1:])
    labels = task.images.batch.labels[:1].expand(_CANDIDATES, *task.images.batch.labels.shape[1:]).clone().zero_()
    return PrivateBatch(torch.rand(shape, generator=rng), labels, ("",) * _CANDIDATES)

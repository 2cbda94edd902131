"""A curious server: images from one client's update."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from fluoroscope.audit.cell import AuditCell, trained
from fluoroscope.audit.chosen_attacks import Attacks, attacks_of, play
from fluoroscope.audit.gallery import shown
from fluoroscope.audit.kept import result_of
from fluoroscope.audit.scored import Measured, curve, scores_of
from fluoroscope.cells import CellContext, Result
from fluoroscope.errors import Unsupported
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import Task, load_task
from fluoroscope.findings import Attacked, Curve, Finding, Kind, Score
from fluoroscope.rng import generator
from fluoroscope.scenarios.auto_attacks import AUTO
from fluoroscope.scenarios.identifiability import embedded, identified, identified_by_chance
from fluoroscope.scenarios.isolation import run_isolated
from fluoroscope.scenarios.stand_ins import held_out_indices, other_patients, stand_in_round
from fluoroscope.scores.intervals import bootstrap_mean, wilson
from fluoroscope.scores.null import AgainstOthers, against_others
from fluoroscope.scores.projection import tsne
from fluoroscope.scores.rdlv import mean_rdlv, rdlv
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import PrivateBatch, UpdateRecord
from fluoroscope.types import Reconstruction as Guess

FEW = 4
"""Images of a client in whose place other patients can stand; a larger one is attacked as it is."""
SHOWN = 6
OTHERS = 60
"""Other clients' images on the map."""
LEAST_SETS = 8
"""Patients, or groups of them, that guesses are told apart from: stand-ins are each other's, and where they are fewer,
too few for a p-value of one in twenty, further patients of the test set join them."""
MOST_SETS = 40
"""Groups of held-out patients beside one recorded client."""


@dataclass(frozen=True)
class Reconstruction(AuditCell):
    """Held-out patients in the place of a small client, or a larger client itself."""

    kind: ClassVar[Kind] = "reconstruction"
    threat: ClassVar[str | None] = "curious-server"
    attack_name: str = AUTO
    client: str = "client-1"
    round: int = 1
    victims: int = 8
    among: tuple[str, ...] = ()
    """Attacks that `auto` chooses among; none means all."""

    @property
    def settings(self) -> dict[str, Any]:
        return {"attack": self.attack_name, "client": self.client, "round": self.round}

    @property
    def attack(self) -> Attacks:
        return attacks_of(self.attack_name, self.among)

    def run(self, context: CellContext) -> Result:
        plan = self.federation
        store, task = trained(plan, context.folder), load_task(plan)
        prior = task.public_mean
        if prior is None:
            raise Unsupported("the attacker's prior needs public images: set partition.auxiliary in the plan.")
        victims = self._victims(store, task, context)
        clients, stand_ins = [truth for truth, _ in victims], _stands_in(task, self.client)
        server, public = THREATS.get("curious-server"), task.public_images
        seen = [observe(record, server, prior, public_images=public, defence=task.defence) for _, record in victims]
        played = play(self.attack, seen, context, run_isolated)
        guesses = played.guesses
        held, lost = sum(map(len, clients)), [bool(guess.nothing) for guess in guesses]
        attacked: Attacked = "stand-ins" if stand_ins else "recorded update"
        reason = next((guess.nothing for guess in guesses if guess.nothing), None)
        quiet = Measured(sum(lost), len(lost))
        rehearsed = played.rows(partial(_beside_others, task, clients, prior, context.seed))
        if all(lost):  # a reason and no result: nobody looked at these patients
            nothing = scores_of(self.kind, gave_up=quiet, images=held)
            return result_of(Finding(scores=nothing, attacked=attacked, gave_up=reason, rehearsed=rehearsed))
        images = [prior.expand_as(guess.images) if guess.nothing else guess.images.cpu() for guess in guesses]
        leaked = [rdlv(guess, client.images, prior) for guess, client in zip(images, clients, strict=True)]
        scores = self._scores(task, prior, clients, images, lost, generator(context.seed, "audit", "bootstrap"))
        originals = torch.cat([v.images[each.nearest] for each, v in zip(leaked, clients, strict=True)])
        found = torch.cat(images)
        similarity = torch.cat([each.similarity for each in leaked])
        values = torch.cat([each.values for each in leaked])
        few = range(min(SHOWN, len(found)))
        finding = Finding(
            scores=scores_of(self.kind, gave_up=quiet, images=held) | scores if any(lost) else scores,
            curves=_map(task, originals, found, generator(context.seed, "audit", "t-sne")),
            gallery=shown(
                self.id,
                [f"{_whose(self.client, stand_ins)}, image {i + 1}" for i in few],
                [{"ssim": float(similarity[i]), "rdlv": float(values[i])} for i in few],
            ),
            attacked=attacked,
            gave_up=reason,
            rehearsed=rehearsed,
        )
        images_shown = {
            "original": originals[: len(few)],
            "reconstruction": found[: len(few)].clamp(0, 1),
            "prior": prior,
        }
        return result_of(finding, images_shown)

    def _scores(
        self,
        task: Task,
        prior: Tensor,
        clients: Sequence[PrivateBatch],
        images: Sequence[Tensor],
        lost: Sequence[bool],
        rng: torch.Generator,
    ) -> dict[str, Score]:
        """The guesses against their own patients and against the others, as P1 scores them and beside their null."""
        others = _others(task, clients)
        if len(clients) + len(others) < 2:
            raise Unsupported(
                f"{self.client} has {len(clients[0])} images, and nobody else has as many to compare a guess with: "
                "raise partition.test in the plan."
            )
        truth = [client.images for client in clients]
        beside = against_others(images, truth, prior, rng, others, lost)
        leaked = [rdlv(guess, own, prior) for guess, own in zip(images, truth, strict=True)]
        hits = [identified(task, guess, client, (1,))[0] for guess, client in zip(images, clients, strict=True)]
        held = sum(map(len, clients))
        recognised = round(
            sum(hit * len(client) for hit, client, no in zip(hits, clients, lost, strict=True) if not no)
        )
        chance = identified_by_chance(task, clients[0], len(images[0]))
        return scores_of(
            self.kind,
            leak=beside.leak,
            told_apart=Measured(beside.told_apart, chance=beside.chance),
            line_up=Measured(beside.line_up, chance=beside.line_up_chance),
            found=Measured(sum(int(each.sum()) for each in beside.found), held),
            images=held,
            p_value=Measured(beside.p_value, len(clients)),
            rdlv=mean_rdlv(torch.cat([each.values for each in leaked]), rng),
            null=beside.null,
            ssim=bootstrap_mean(torch.cat([each.similarity for each in leaked]), rng),
            ssim_prior=float(torch.cat([each.prior_similarity for each in leaked]).mean()),
            iip=Measured(wilson(recognised, held), chance=chance),
            recognised=Measured(recognised, held),
        )

    def _victims(self, store: RecordStore, task: Task, context: CellContext) -> list[tuple[PrivateBatch, UpdateRecord]]:
        """The client with the update that was recorded; or several stand-ins of the test set, whom the model has not
        seen, as many as there are patients for."""
        number = [split.name for split in task.clients].index(self.client)
        before = store.global_state(self.round - 1)
        if not all(value.isfinite().all() for value in before.values()):
            raise Unsupported(f"under this defence the model of round {self.round} holds numbers that are not finite.")
        if not _stands_in(task, self.client):
            return [(task.train_batch(number), store.load(self.round, self.client))]
        split, batch = task.clients[number], task.images.batch
        each = len(split.train)
        patients = {batch.patients[i] for i in task.partition.test}
        places = held_out_indices(task, max(1, min(self.victims, len(patients) // each)), each)
        size = split.batch_size or task.plan.training.batch_size
        return [
            (
                truth := batch.subset(indices),
                stand_in_round(
                    task,
                    before,
                    self.round,
                    truth,
                    size,
                    generator(context.seed, "audit", "client", self.client, i),
                    self.client,
                ),
            )
            for i, indices in enumerate(places)
        ]


def _beside_others(
    task: Task, clients: Sequence[PrivateBatch], prior: Tensor, seed: int, guesses: Sequence[Guess]
) -> AgainstOthers | None:
    """None where nobody stands beside a single client."""
    others = _others(task, clients)
    if len(clients) + len(others) < 2:
        return None
    images, lost = [guess.images.cpu() for guess in guesses], [bool(guess.nothing) for guess in guesses]
    rng = generator(seed, "audit", "bootstrap")
    return against_others(images, [client.images for client in clients], prior, rng, others, lost)


def _others(task: Task, clients: Sequence[PrivateBatch]) -> list[Tensor]:
    few = max(0, LEAST_SETS - len(clients)) if len(clients) > 1 else MOST_SETS
    return other_patients(task, clients, few)


def _stands_in(task: Task, client: str) -> bool:
    return next(len(split.train) for split in task.clients if split.name == client) <= FEW


def _map(task: Task, originals: Tensor, found: Tensor, rng: torch.Generator) -> dict[str, Curve]:
    """Who lies next to whom (P1 fig. 10): other clients' images, the originals, and what was made of them."""
    others = [i for split in task.clients for i in split.train][:OTHERS]
    groups = {"others": task.images.batch.images[others], "originals": originals, "reconstructions": found.clamp(0, 1)}
    points = tsne(embedded(torch.cat(list(groups.values()))), rng)
    parts = torch.split(points, [len(group) for group in groups.values()])
    return {
        f"tsne {name}": curve(part[:, 0].tolist(), part[:, 1].tolist(), "t-SNE 1", "t-SNE 2")
        for name, part in zip(groups, parts, strict=True)
    }


def _whose(client: str, stand_ins: bool) -> str:
    return f"a patient in the place of {client}" if stand_ins else client

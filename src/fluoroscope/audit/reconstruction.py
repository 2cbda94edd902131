"""A curious server: images from one client's update."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fluoroscope.attacks import ATTACKS, Attack
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.gradient_inversion.single_step import as_single_step_if_long
from fluoroscope.audit.cell import AuditCell, trained
from fluoroscope.audit.gallery import shown
from fluoroscope.audit.kept import result_of
from fluoroscope.audit.scored import Measured, curve, scores_of
from fluoroscope.cells import CellContext, Result
from fluoroscope.errors import Unsupported
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import Task, load_task
from fluoroscope.findings import Curve, Finding, Kind
from fluoroscope.rng import generator
from fluoroscope.scenarios.identifiability import embedded, identified, identified_by_chance
from fluoroscope.scenarios.isolation import run_isolated
from fluoroscope.scenarios.stand_ins import held_out_indices, stand_in_round
from fluoroscope.scores.intervals import bootstrap_mean, wilson
from fluoroscope.scores.projection import tsne
from fluoroscope.scores.rdlv import mean_rdlv, rdlv
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import PrivateBatch, UpdateRecord

FEW = 4
"""Images of a client in whose place other patients can stand; a larger one is attacked as it is."""
SHOWN = 6
OTHERS = 60
"""Other clients' images on the map."""


@dataclass(frozen=True)
class Reconstruction(AuditCell):
    """Held-out patients in the place of a small client, or a larger client itself."""

    kind: ClassVar[Kind] = "reconstruction"
    threat: ClassVar[str | None] = "curious-server"
    attack_name: str = "span"
    client: str = "client-1"
    round: int = 1
    victims: int = 8

    @property
    def settings(self) -> dict[str, Any]:
        return {"attack": self.attack_name, "client": self.client, "round": self.round}

    @property
    def attack(self) -> Attack:
        return ATTACKS.get(self.attack_name)

    def run(self, context: CellContext) -> Result:
        plan = self.federation
        store, task = trained(plan, context.folder), load_task(plan)
        prior = task.public_mean
        if prior is None:
            raise Unsupported("the attacker's prior needs public images: set partition.auxiliary in the plan.")
        victims = self._victims(store, task, context)
        clients, stand_ins = [truth for truth, _ in victims], _stands_in(task, self.client)
        seen = [as_single_step_if_long(observe(record, THREATS.get("curious-server"), prior)) for _, record in victims]
        guesses = run_isolated(
            self.attack,
            seen,
            generator(context.seed, "audit", "attack"),
            lambda i, n: context.on_progress((i + 1) / n),
            Checkpoint(context.checkpoint),
        )
        images = [guess.images.cpu() for guess in guesses]
        leaked = [rdlv(guess, client.images, prior) for guess, client in zip(images, clients, strict=True)]
        hits = [identified(task, guess, client, (1,))[0] for guess, client in zip(images, clients, strict=True)]
        rng = generator(context.seed, "audit", "bootstrap")
        held = sum(map(len, clients))
        recognised = round(sum(hit * len(client) for hit, client in zip(hits, clients, strict=True)))
        chance = identified_by_chance(task, clients[0], len(images[0]))
        scores = scores_of(
            self.kind,
            rdlv=mean_rdlv(torch.cat([each.values for each in leaked]), rng),
            ssim=bootstrap_mean(torch.cat([each.similarity for each in leaked]), rng),
            ssim_prior=float(torch.cat([each.prior_similarity for each in leaked]).mean()),
            iip=Measured(wilson(recognised, held), chance=chance),
            recognised=Measured(recognised, held),
            images=held,
        )
        originals = torch.cat([v.images[each.nearest] for each, v in zip(leaked, clients, strict=True)])
        found = torch.cat(images)
        similarity = torch.cat([each.similarity for each in leaked])
        values = torch.cat([each.values for each in leaked])
        few = range(min(SHOWN, len(found)))
        finding = Finding(
            scores=scores,
            curves=_map(task, originals, found, generator(context.seed, "audit", "t-sne")),
            gallery=shown(
                self.id,
                [f"{_whose(self.client, stand_ins)}, image {i + 1}" for i in few],
                [{"ssim": float(similarity[i]), "rdlv": float(values[i])} for i in few],
            ),
            attacked="stand-ins" if stand_ins else "recorded update",
        )
        images_shown = {
            "original": originals[: len(few)],
            "reconstruction": found[: len(few)].clamp(0, 1),
            "prior": prior,
        }
        return result_of(finding, images_shown)

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

"""A curious server: how many images of each class a client holds, from its update."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from fluoroscope.attacks.inference import LABEL_COUNT_ATTACKS, LabelCountAttack
from fluoroscope.attacks.inference.learned_counts import LearnedCounts, random_mix
from fluoroscope.audit.cell import trained
from fluoroscope.audit.kept import result_of
from fluoroscope.audit.scored import Measured, curve, scores_of
from fluoroscope.audit.server_cell import ServerCell, seen_by_server
from fluoroscope.cells import CellContext, Result
from fluoroscope.errors import Unsupported
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import Task, load_task
from fluoroscope.findings import Finding, Kind
from fluoroscope.rng import generator
from fluoroscope.scenarios.stand_ins import stand_in_round
from fluoroscope.scores.intervals import bootstrap_mean
from fluoroscope.scores.label_counts import score_mixes
from fluoroscope.types import Observation

DRAWN = 4
"""Classes of which a curve is kept."""


@dataclass(frozen=True)
class LabelCounts(ServerCell):
    """Each client's recorded update, and beside it stand-ins: test images of random mixes in the client's place.

    The stand-ins are what a null and an interval are made of: few clients differ enough in their mixes to tell a guess
    from luck.
    """

    kind: ClassVar[Kind] = "label-counts"
    attack_name: str = "learned-counts"
    stand_ins: int = 8
    """Per client."""
    simulations: int = 64
    """Rounds that an attack which learns plays, per client."""

    @property
    def attack(self) -> LabelCountAttack:
        found = LABEL_COUNT_ATTACKS.get(self.attack_name)
        return replace(found, simulations=self.simulations) if isinstance(found, LearnedCounts) else found

    def run(self, context: CellContext) -> Result:
        plan = self.federation
        store, task = trained(plan, context.folder), load_task(plan)
        if task.public_images is None:
            raise Unsupported("label counts are learned from public images: set partition.auxiliary in the plan.")
        if task.images.batch.labels.ndim != 1:
            raise Unsupported("label counts are of one class per image, and these have several findings each.")
        guesses, truths, groups, recorded = [], [], [], []
        clients = self.took_part(task, store)
        for number, place in enumerate(clients):
            seen, truth = self._cases(task, store, place, context.seed)
            rng = generator(context.seed, "audit", "label counts", task.clients[place].name)
            guesses.append(self.attack.run(seen, rng) / len(task.clients[place].train))
            truths.append(truth)
            groups.append(torch.full((len(seen),), place))
            recorded.append(torch.arange(len(seen)) == 0)
            context.on_progress((number + 1) / len(clients))
        guess, true, own = torch.cat(guesses).double(), torch.cat(truths), torch.cat(recorded)
        public = _shares(task.public_images.labels, len(task.images.classes))
        rng = generator(context.seed, "audit", "label counts", "bootstrap")
        found = score_mixes(guess, true, public, torch.cat(groups), rng)
        scores = scores_of(
            self.kind,
            gain=Measured(found.gain, chance=0.0),
            error=found.error,
            error_public=found.public,
            error_clients=bootstrap_mean((guess - true)[own].abs().mean(1), rng),
            p_value=Measured(found.p_value, len(guess)),
        )
        return result_of(Finding(scores=scores, curves=_curves(task.images.classes, guess, true)))

    def _cases(self, task: Task, store: RecordStore, place: int, seed: int) -> tuple[list[Observation], Tensor]:
        """The client first, then its stand-ins; and the true shares."""
        split, batch, classes = task.clients[place], task.images.batch, len(task.images.classes)
        before = store.global_state(self.round - 1)
        records, truths = [store.load(self.round, split.name)], [task.train_batch(place).labels]
        test = torch.tensor(task.partition.test)
        held_out = [found for c in range(classes) if len(found := test[batch.labels[test] == c])]
        for number in range(self.stand_ins if held_out else 0):
            rng = generator(seed, "audit", "label counts", split.name, "stand-in", number)
            victims = batch.subset(random_mix(held_out, len(split.train), 1.0, rng))
            size = split.batch_size or task.plan.training.batch_size
            records.append(stand_in_round(task, before, self.round, victims, size, rng, split.name))
            truths.append(victims.labels)
        return [seen_by_server(task, record) for record in records], torch.stack([_shares(t, classes) for t in truths])


def _shares(labels: Tensor, classes: int) -> Tensor:
    return labels.bincount(minlength=classes).double() / len(labels)


def _curves(classes: tuple[str, ...], guess: Tensor, truth: Tensor) -> dict[str, Any]:
    """Guessed against true shares, of the first classes."""
    found = {}
    for c, name in list(enumerate(classes))[:DRAWN]:
        order = truth[:, c].argsort(stable=True)
        x, y = truth[order, c].tolist(), guess[order, c].tolist()
        found[f"share of {name}"] = curve(x, y, f"true share of {name}", "guessed share")
    return found

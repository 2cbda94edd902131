"""A curious server: which of the images that it has were in a client's training."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fluoroscope.attacks.inference import INFERENCE_ATTACKS, InferenceAttack
from fluoroscope.attacks.inference.lira import Lira
from fluoroscope.attacks.inference.rmia import Rmia
from fluoroscope.attacks.inference.shadows import ClientShadows
from fluoroscope.audit.cell import trained
from fluoroscope.audit.kept import result_of
from fluoroscope.audit.scored import Measured, roc_curve, scores_of
from fluoroscope.audit.server_cell import ServerCell, seen_by_server
from fluoroscope.cells import CellContext, Result
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.federation.task import Task, load_task
from fluoroscope.findings import Curve, Finding, Kind, Score
from fluoroscope.rng import generator
from fluoroscope.scenarios.candidates import Case, matched_case
from fluoroscope.scores.intervals import wilson
from fluoroscope.scores.roc import Roc, roc, true_positives_at

FALSE_POSITIVES = 0.01
FEWEST = 5
"""Members in all, below which a share of right answers says nothing."""
MEMBERS = 64
"""Images of a client that are asked about, at most."""


@dataclass(frozen=True)
class Membership(ServerCell):
    """Some of each client's training images, and as many of each class that nobody trained on.

    `shadows` are those of an attack that simulates the client.
    """

    kind: ClassVar[Kind] = "membership"
    attack_name: str = "loss"
    shadows: int = 8

    @property
    def attack(self) -> tuple[str, int]:
        """By name: an attack that holds a function has no fingerprint."""
        return self.attack_name, self.shadows

    def _attack(self) -> InferenceAttack:
        found = INFERENCE_ATTACKS.get(self.attack_name)
        if isinstance(found, Lira) and isinstance(found.game, ClientShadows):
            return replace(found, game=replace(found.game, shadows=self.shadows))
        return replace(found, shadows=self.shadows) if isinstance(found, Rmia) else found

    def run(self, context: CellContext) -> Result:
        plan = self.federation
        store, task = trained(plan, context.folder), load_task(plan)
        places = self.took_part(task, store)
        asked = _cases(task, places, context.seed)
        scores, members, by_client = [], [], []
        for number, (place, case) in enumerate(asked.items()):
            name = task.clients[place].name
            seen = seen_by_server(task, store.load(self.round, name))
            rng = generator(context.seed, "audit", "membership", name)
            found = self._attack().run([seen], case.candidates, rng, task.public_images)[0]
            # A threshold for all: what one model says is centred by what it says of all that it is asked about.
            scores.append(found - found.mean())
            members.append(case.members)
            own = roc(found[case.members], found[~case.members], rng)
            by_client.append((len(task.clients[place].train), own.auc))
            context.on_progress((number + 1) / len(asked))
        score, inside = torch.cat(scores), torch.cat(members)
        drawn = roc(score[inside], score[~inside], generator(context.seed, "audit", "permutations"))
        curves = {
            "roc": roc_curve(drawn),
            "auc by size": Curve(
                x=tuple(size for size, _ in by_client),
                y=tuple(auc.mean for _, auc in by_client),
                low=tuple(auc.low for _, auc in by_client),
                high=tuple(auc.high for _, auc in by_client),
                x_label="training images of the client",
                y_label="AUC",
            ),
        }
        return result_of(Finding(scores=_scores(self.kind, drawn, inside), curves=curves))


def _cases(task: Task, places: list[int], seed: int) -> dict[int, Case]:
    """By client, each with held-out images of its own: an image that is asked about twice is no second case."""
    left, found = list(task.partition.test), {}
    ordered = sorted(places, key=lambda place: len(task.clients[place].train))  # the small ones leave some over
    for number, place in enumerate(ordered):
        fair = min(MEMBERS, -(-len(left) // (len(ordered) - number)))
        split = task.clients[place]
        rng = generator(seed, "audit", "membership", "candidates", split.name)
        try:
            found[place] = matched_case(task, split.train, left, fair, rng)
        except Misconfigured:  # nobody of its classes is left
            continue
        left = [i for i in left if i not in set(found[place].strangers)]
    if not found:
        raise Unsupported("membership needs test images of the clients' classes: set a larger partition.test.")
    if (asked := sum(int(case.members.sum()) for case in found.values())) < FEWEST:
        raise Unsupported(
            f"membership needs at least {FEWEST} training images to tell a rate, and these clients have {asked}: add "
            "clients to audit.clients."
        )
    return found


def _scores(kind: Kind, drawn: Roc, inside: Tensor) -> dict[str, Score]:
    members, others = int(inside.sum()), int((~inside).sum())
    allowed = max(FALSE_POSITIVES, 1 / others)
    hits = round(true_positives_at(drawn, allowed) * members)
    return scores_of(
        kind,
        auc=Measured(drawn.auc, chance=0.5),
        tpr=Measured(wilson(hits, members), chance=allowed),
        fpr=allowed,
        advantage=Measured(drawn.advantage, len(inside), chance=0.0),
        p_value=Measured(drawn.p_value, len(inside)),
        members=members,
    )

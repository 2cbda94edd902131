"""Federations whose clients overfit, and the records of whom a curious server or client asks who trained on them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fluoroscope.errors import Misconfigured
from fluoroscope.federation.plan import Plan, parse_plan
from fluoroscope.federation.run import federate
from fluoroscope.federation.task import Task
from fluoroscope.rng import generator
from fluoroscope.studies.p3.federation import Trained
from fluoroscope.studies.study import Size
from fluoroscope.types import LabelledImages

PRIVACIES: dict[str, dict[str, Any] | None] = {
    "none": None,
    "global-dp": {"name": "central-dp"},
    "metric-privacy": {"name": "metric-privacy"},
    "dp-sgd": {"name": "dp-sgd", "clip_norm": 1.0, "noise_multiplier": 2.0},
}
"""P3's two, by P3's words, stand at the server, with P3's clipping norm and noise; DP-SGD stands at the client."""
VICTIM, ATTACKER = 0, 1
"""Clients by place. The attacker is one only where the curious one is a client."""
ROUND = 1
SCALES: dict[Size, dict[str, Any]] = {
    "small": {
        "size": 32,
        "images": 240,
        "clients": 3,
        "batch_size": 8,
        "epochs": 30,
        "pretrain": 40,
        "members": 16,
        "shadows": 16,
        "others": 4,
    },
    "paper": {
        "size": 128,
        "images": 6400,
        "clients": 4,
        "batch_size": 32,
        "epochs": 30,
        "pretrain": 5,
        "members": 200,
        "shadows": 64,
        "others": 16,
    },
}
"""`members` are asked about, and as many others; each of the `shadows` holds half of them all; `others` are trainings
that stand in for the clients of whom the attacker knows nothing."""


@dataclass(frozen=True)
class Overfitted:
    """Clients with few images that train long from a model of the server's."""

    privacy: str
    size: Size
    data: str = "phantom/brain"

    def plan(self, seed: int) -> Plan:
        """The seed draws all, phantoms too: federations of two seeds share no phantom."""
        scale, defence = SCALES[self.size], PRIVACIES[self.privacy]
        everything = self.size == "paper" and not self.data.startswith("phantom/")
        return parse_plan(
            {
                "seed": seed,
                "rounds": ROUND,
                "data": {
                    "source": self.data,
                    "size": scale["size"],
                    "channels": 1,
                    "images": None if everything else scale["images"],
                    "seed": seed,
                },
                "partition": {
                    "name": "iid",
                    "clients": scale["clients"],
                    "validation": 0.1,
                    "test": 0.5,
                    "auxiliary": 0.2,
                },
                "model": {"name": "p3-cnn"},
                "training": {
                    "optimiser": "adam",
                    "lr": 0.001,
                    "batch_size": scale["batch_size"],
                    "epochs": scale["epochs"],
                },
                "strategy": {"name": "fedavg", "pretrain_epochs": scale["pretrain"]},
                "defence": [defence] if defence else [],
            }
        )

    def trained(self, seed: int, folder: Path) -> Trained:
        """From the folder, or trained into it."""
        plan = self.plan(seed)
        return Trained(federate(plan, folder / "federations" / plan.fingerprint[:16]), plan)


@dataclass(frozen=True, eq=False)
class Case:
    """What an attacker asks about, what else it has, and, for scoring alone, the answer."""

    candidates: LabelledImages
    pool: LabelledImages
    """Images of the same kind that no client has."""
    members: torch.Tensor
    """(n,), bool: the truth."""


def case(task: Task, count: int) -> Case:
    """`count` of the victim's training images and as many of each class that nobody trained on."""
    rng, labels = generator(task.plan.seed, "p3", "candidates"), task.images.batch.labels
    own = _shuffled(task.clients[VICTIM].train, rng)[:count]
    held_out = _shuffled(task.partition.test, rng)
    members, others = [], []
    for label in sorted({int(labels[i]) for i in own}):
        mine, theirs = ([i for i in side if int(labels[i]) == label] for side in (own, held_out))
        fewest = min(len(mine), len(theirs))
        members += mine[:fewest]
        others += theirs[:fewest]
    if not members:
        raise Misconfigured(f"{task.images.name}: no held-out image has a class of the victim's; load more images.")
    asked = set(others)
    pool = [i for i in held_out if i not in asked]
    truth = torch.arange(len(members) + len(others)) < len(members)
    return Case(records(task, [*members, *others]), records(task, pool), truth)


def records(task: Task, chosen: list[int]) -> LabelledImages:
    """These images in an attacker's hands."""
    batch = task.images.batch
    return LabelledImages(batch.images[chosen], batch.labels[chosen])


def _shuffled(indices: tuple[int, ...], rng: torch.Generator) -> list[int]:
    return [indices[i] for i in torch.randperm(len(indices), generator=rng).tolist()]

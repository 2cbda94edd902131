"""Federations whose clients overfit, and the records of whom a curious server or client asks who trained on them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluoroscope.federation.plan import Plan, parse_plan
from fluoroscope.federation.run import federate
from fluoroscope.federation.task import Task
from fluoroscope.rng import generator
from fluoroscope.scenarios.candidates import Case, matched_case
from fluoroscope.studies.p3.federation import Trained
from fluoroscope.studies.study import Size

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


def case(task: Task, count: int) -> Case:
    """`count` of the victim's training images and as many of each class that nobody trained on."""
    rng = generator(task.plan.seed, "p3", "candidates")
    return matched_case(task, task.clients[VICTIM].train, task.partition.test, count, rng)

"""P1's federation, trained once under a study's folder; its held-out images are the victims of every cell."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from fluoroscope.data import Request, load
from fluoroscope.data.phantoms import BRAIN, CHEST, FUNDUS, burned_label
from fluoroscope.data.phantoms.burn_in import stamp
from fluoroscope.federation.plan import Plan, parse_plan
from fluoroscope.federation.run import federate
from fluoroscope.federation.task import Task, load_task
from fluoroscope.scenarios.stand_ins import held_out_indices, stand_in_round
from fluoroscope.scores.legibility import Writing
from fluoroscope.types import PrivateBatch, UpdateRecord

Scale = Literal["small", "small-clients", "small-public", "small-few", "small-128", "small-224", "nine", "paper"]
STAGES = {
    "small": (1, 3, 6),
    "small-clients": (1, 4),
    "small-public": (1, 4),
    "small-few": (1, 3),
    "small-128": (1, 3),
    "small-224": (1, 3),
    "nine": (1, 10, 30),
    "paper": (1, 10, 50, 90),
}
"""Rounds before which the global model is kept."""

_FEW = {"name": "p1", "clients": [1, 5, 9], "validation": 4, "test": 24, "auxiliary": 60}
"""For sets of 200 images."""

SCALES: dict[Scale, dict[str, Any]] = {
    "small": {
        "rounds": 6,
        "model": {"name": "resnet18"},
        "data": {"size": 64, "images": 600},
        "partition": {"name": "p1", "clients": [1, 2, 5, 6, 9], "validation": 8, "test": 64, "auxiliary": 160},
        "training": {"lr": 0.02},
        "strategy": {"pretrain_epochs": 3},
    },
    "small-clients": {
        "rounds": 4,
        "model": {"name": "resnet18"},
        "data": {"size": 64, "images": 1000},
        "partition": {"name": "p1", "clients": [1, 3, 4, 9], "validation": 8, "test": 160, "auxiliary": 120},
        "training": {"lr": 0.02},
        "strategy": {"pretrain_epochs": 3},
    },
    "small-public": {
        "rounds": 4,
        "model": {"name": "resnet18"},
        "data": {"size": 64, "images": 1000},
        "partition": {"name": "p1", "clients": [1, 3, 9], "validation": 8, "test": 160, "auxiliary": 500},
        "training": {"lr": 0.02},
        "strategy": {"pretrain_epochs": 3},
    },
    "small-few": {
        "rounds": 3,
        "model": {"name": "resnet18"},
        "data": {"size": 64, "images": 400},
        "partition": {**_FEW, "test": None},
        "training": {"lr": 0.02},
        "strategy": {"pretrain_epochs": 3},
    },
    "small-128": {
        "rounds": 3,
        "model": {"name": "resnet18"},
        "data": {"size": 128, "images": 300},
        "partition": _FEW,
        "training": {"lr": 0.02},
        "strategy": {"pretrain_epochs": 3},
    },
    "small-224": {
        "rounds": 3,
        "model": {"name": "resnet18"},
        "data": {"size": 224, "images": 200},
        "partition": _FEW,
        "training": {"lr": 0.02},
        "strategy": {"pretrain_epochs": 3},
    },
    "nine": {
        "rounds": 30,
        "model": {"name": "resnet18"},
        "data": {"size": 64, "images": 1900},
        "partition": {"name": "p1", "validation": 8, "test": 96, "auxiliary": 300},
        "training": {"lr": 0.02},
        "strategy": {"pretrain_epochs": 3},
    },
    "paper": {
        "rounds": 100,
        "model": {"name": "resnet18"},
        "data": {"size": 224, "images": 6000},
        "partition": {"name": "p1", "validation": 200, "test": 1382, "auxiliary": 1000},
        "training": {"lr": 0.01, "lr_decay": 0.1, "lr_decay_every": 40},
        "strategy": {"pretrain_epochs": 10},
    },
}
"""P1 table II; small takes its clients of 8, 32 and 1 images, small-clients those of 8, 128, 512 and 1;
small-public leaves the attacker 500 public images to learn from, small-few 60 and all other patients to be victims;
nine has all of P1's clients, for which 1000 images do not do."""


Named = tuple[str, tuple[tuple[str, Any], ...]]
"""A defence by name, with its settings as pairs."""


@dataclass(frozen=True)
class Federation:
    """Which federation: its size, its images, and whether it starts from a network that knows the task a little.

    P1 starts from ImageNet's weights. Here some epochs on the public auxiliary images stand in for them.
    """

    scale: Scale
    data: str
    start: Literal["pretrained", "scratch"] = "pretrained"
    defence: tuple[Named, ...] = ()
    model: str | None = None
    """Another network than the scale's."""

    def plan(self, seed: int) -> Plan:
        content = SCALES[self.scale]
        return parse_plan(
            {
                **content,
                "seed": seed,
                "model": {"name": self.model} if self.model else content["model"],
                "defence": [{"name": name, **dict(settings)} for name, settings in self.defence],
                "evaluate_every": content["rounds"],
                "data": {**content["data"], "source": self.data},
                "strategy": content["strategy"] if self.start == "pretrained" else {},
                "records": {"rounds": list(STAGES[self.scale]), "clients": ["client-9"]},
            }
        )

    def trained(self, seed: int, folder: Path) -> "Trained":
        """From the folder, or trained into it."""
        plan = self.plan(seed)
        store = federate(plan, folder / "federations" / plan.fingerprint[:16])
        states = {r: store.global_state(r - 1) for r in STAGES[self.scale]}
        scored = store.result["last"]
        return Trained(load_task(plan), states, (scored or {}).get("accuracy"))


@dataclass(frozen=True, eq=False)
class Trained:
    """The task, and the global states before the rounds that are attacked."""

    task: Task
    states: dict[int, dict[str, Tensor]]
    test_accuracy: float | None = None
    """Of the last model."""

    @property
    def prior(self) -> Tensor:
        """What an attacker knows of such images, of whom no victim is one."""
        mean = self.task.public_mean
        assert mean is not None  # every scale has auxiliary images
        return mean

    def held_out(self, clients: int, each: int, burn_in: bool) -> list[PrivateBatch]:
        """So many clients' images: of the test set, every one of another patient.

        A client's first image is the same however many follow it.
        """
        batch = self._burned() if burn_in and self.task.images.synthetic else self.task.images.batch
        return [batch.subset(indices) for indices in held_out_indices(self.task, clients, each)]

    def writing(self, index: int) -> Writing:
        """What is burned into this phantom, and where."""
        plan = self.task.plan
        seed = plan.seed if plan.data.seed is None else plan.data.seed
        kind = {"phantom/chest": CHEST, "phantom/fundus": FUNDUS, "phantom/brain": BRAIN}[plan.data.source]
        label, size = burned_label(kind, seed, index), self.task.images.size
        mark = stamp(label, size)
        return Writing(label.lines(size), mark.top, mark.left, mark.ink.shape[0])

    def _burned(self) -> PrivateBatch:
        """The same phantoms with a made-up name and date of birth in the picture, as in P1 fig. 7."""
        plan = self.task.plan.data
        request = Request(plan.size, plan.channels, plan.images, self.task.plan.seed, burn_in=True)
        return load(plan.source, request).batch

    def update(
        self, server_round: int, victims: PrivateBatch, batch_size: int, rng: torch.Generator, client: str = "client-9"
    ) -> UpdateRecord:
        """What a client with these images alone would send in that round, the federation's defences behind it."""
        return stand_in_round(self.task, self.states[server_round], server_round, victims, batch_size, rng, client)

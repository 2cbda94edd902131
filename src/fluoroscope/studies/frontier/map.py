"""One point of the map: clients that train in a certain way, and the best that all applicable attacks get of them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

import torch
from torch import Tensor

from fluoroscope.attacks import Attack
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.learned.feature_decoder import FeatureDecoder
from fluoroscope.attacks.learned.learning import NEEDS
from fluoroscope.attacks.learned.simulated_rounds import FEWEST_CLIENTS
from fluoroscope.cells import CellContext, Result
from fluoroscope.defences import Chain
from fluoroscope.federation.client_round import client_round
from fluoroscope.federation.plan import Plan, parse_plan
from fluoroscope.federation.run import federate
from fluoroscope.federation.settings import build_defences
from fluoroscope.federation.task import Task, load_task
from fluoroscope.rng import generator
from fluoroscope.scenarios.auto_attacks import candidates
from fluoroscope.scenarios.isolation import TookTooLong
from fluoroscope.scenarios.playing import shared
from fluoroscope.scenarios.rehearsal import Effort, Limits, Stage, tried
from fluoroscope.scenarios.rehearsed import Rehearsed
from fluoroscope.scenarios.stand_ins import held_out_indices, other_patients
from fluoroscope.scores.null import AgainstOthers, against_others
from fluoroscope.scores.reconstruction import score
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import AdamW, LabelledImages, LocalOptimiser, Observation, PrivateBatch, Reconstruction, Sgd

Optimiser = Literal["sgd", "momentum", "adamw"]
Defence = Literal["none", "fed-bn", "fed-bn + clip-and-noise"]
OPTIMISERS: Mapping[Optimiser, LocalOptimiser] = {
    "sgd": Sgd(0.02),
    "momentum": Sgd(0.02, momentum=0.9),
    "adamw": AdamW(1e-3),
}
DEFENCES: Mapping[Defence, tuple[tuple[str, dict[str, Any]], ...]] = {
    "none": (),
    "fed-bn": (("fed-bn", {}),),
    "fed-bn + clip-and-noise": (("fed-bn", {}), ("clip-and-noise", {"clip_norm": 1.0, "noise_multiplier": 0.05})),
}
VICTIMS = {1: 6, 2: 6, 4: 5, 8: 5}
"""Clients of so many images; one alone where it has more, whose guesses are the cases then."""
UNMATCHED = "feature-decoder, unmatched"
"""The same without its descent: played where the whole of it was left out or stopped."""
LINEAR = "ridge"
FIRST = ("feature-decoder", UNMATCHED, LINEAR, "decoder")
"""Played before the others: features in closed form, whatever the number of images and steps; then what is learned from
simulated rounds, of which there are as many as fit, so that each point has an attack that made a guess."""
SIMULATING = 0.4
"""Of the first such attack's share: by the seconds of training alone, as much again goes into reading the rounds."""
LEVEL = 0.95
_PATIENCE = 1.1
"""Times its share that an attack may be forecast to take: not all iterations cost the same."""


@dataclass(frozen=True)
class MapCell:
    """Clients in one round of a federation whose network knows the task a little."""

    images_per_step: int = 4
    steps: int = 2
    """Per epoch: the client has images_per_step * steps images."""
    epochs: int = 1
    optimiser: Optimiser = "sgd"
    size: int = 64
    network: str = "resnet18"
    defence: Defence = "none"
    seconds: float = 80.0
    """Of a processor for all attacks: the first may take most, `ridge` all that is left and at least a fifth, since the
    first may not be stopped in time, each other half of the rest."""
    data: str = "phantom/chest"

    @property
    def settings(self) -> dict[str, Any]:
        names = ("data", "images_per_step", "steps", "epochs", "optimiser", "size", "network", "defence")
        return {name: getattr(self, name) for name in names}

    @property
    def attack(self) -> dict[str, Attack]:
        """All that are registered, so that another one makes this another cell; those first that see most for least."""
        found = {**candidates(), UNMATCHED: FeatureDecoder(UNMATCHED, matching=None, budget=Budget(1))}
        return {name: found[name] for name in dict.fromkeys([*FIRST, *found]) if name in found}

    @property
    def images(self) -> int:
        return self.images_per_step * self.steps

    def plan(self, seed: int) -> Plan:
        """The federation that all cells of one network and size share."""
        return parse_plan(
            {
                "seed": seed,
                "rounds": 1,
                "model": {"name": self.network},
                "data": {"source": self.data, "size": self.size, "images": 1000},
                "partition": {"name": "p1", "clients": [2], "validation": 8, "test": 320, "auxiliary": 300},
                "training": {"lr": 0.02},
                "strategy": {"pretrain_epochs": 3},
                "records": {"rounds": "none"},
            }
        )

    def run(self, context: CellContext) -> Result:
        plan = self.plan(context.seed)
        store = federate(plan, context.folder / "federations" / plan.fingerprint[:16])
        stage = self._stage(load_task(plan), store.global_state(1), context.seed)
        played = _Played(context, stage.round_seconds)
        rows: list[Rehearsed] = []
        left = self.seconds
        attacks = self.attack
        for number, (name, attack) in enumerate(attacks.items()):
            if name == UNMATCHED and rows[0].applies:
                continue
            share = left / 2 if number + 1 < len(attacks) else left
            share = {FIRST[0]: 0.8 * left, LINEAR: max(left, 0.2 * self.seconds)}.get(name, share)
            began = time.process_time()
            rows.append(
                tried(name, attack, stage, Effort(iterations=10_000), share, context.seed, played.within(name, share))
            )
            left = max(0.0, left - (time.process_time() - began))
            context.on_progress((number + 1) / len(attacks))
        return _result(rows, played.guesses, stage, context.seed)

    def _stage(self, task: Task, state: Mapping[str, Tensor], seed: int) -> Stage:
        """The victims' rounds as the server sees them; what it may learn from are the public images."""
        public, defence = task.public_images, build_defences(DEFENCES[self.defence])
        assert public is not None  # the plan has auxiliary images
        count = VICTIMS.get(self.images, 1)
        victims = [task.images.batch.subset(places) for places in held_out_indices(task, count, self.images)]
        shown, taken = [], []
        for number, victim in enumerate(victims):
            began = time.process_time()
            shown.append(self._seen(task, dict(state), victim, defence, public, generator(seed, "map", number)))
            taken.append(time.process_time() - began)
        others = other_patients(task, victims, 8)
        steps = self.steps * self.epochs
        return Stage(tuple(shown), tuple(victims), public, tuple(others), min(taken) / steps)

    def _seen(
        self,
        task: Task,
        state: dict[str, Tensor],
        victim: PrivateBatch,
        defence: Chain,
        public: LabelledImages,
        rng: torch.Generator,
    ) -> Observation:
        usual = task.local_training(0, task.round_config(2))
        training = replace(
            usual,
            optimiser=OPTIMISERS[self.optimiser],
            images=self.images,
            batch_size=self.images_per_step,
            epochs=self.epochs,
        )
        record = client_round(task.network, state, victim, training, rng, defence, server_round=2).record
        return observe(
            record, THREATS.get("curious-server"), public.images.mean(0), public_images=public, defence=defence
        )


class _Played:
    """Runs attacks here, each within its share of the processor, and keeps what they guessed."""

    def __init__(self, context: CellContext, round_seconds: float) -> None:
        self.guesses: dict[str, list[Reconstruction]] = {}
        self._round_seconds = round_seconds
        self._simulated: int | None = None
        self._kept = shared(context.checkpoint)  # rounds that one attack simulates serve the others

    def within(self, name: str, seconds: float) -> "_Within":
        return _Within(self, name, seconds)

    def run(self, name: str, seconds: float, attack: Attack, seen: list[Observation], rng: torch.Generator) -> None:
        if attack.needs >= NEEDS:
            seen = self._with_as_many_as_fit(seen, seconds)
        began = time.process_time()

        def stop(iteration: int, iterations: int) -> None:
            used = time.process_time() - began
            forecast = used * iterations / (iteration + 1)
            if used > seconds or (used > seconds / 10 and forecast > _PATIENCE * seconds):
                raise TookTooLong(f"it would take about {forecast:.0f} s, its share is {seconds:.0f} s")

        self.guesses[name] = attack.run(seen, rng, stop, self._kept)

    def _with_as_many_as_fit(self, seen: list[Observation], seconds: float) -> list[Observation]:
        """With as many public images as rounds can be simulated; the next attack is given the same, and its rounds."""
        if self._simulated is None:
            self._simulated = max(FEWEST_CLIENTS, int(SIMULATING * seconds / self._round_seconds))
        public = seen[0].public_images
        assert public is not None  # the plan has auxiliary images
        chosen = slice(None, None, -(-len(public) // self._simulated))
        fewer = LabelledImages(public.images[chosen], public.labels[chosen], public.patients[chosen])
        return [replace(each, public_images=fewer) for each in seen]


@dataclass(frozen=True, eq=False)
class _Within:
    played: _Played
    name: str
    seconds: float

    def __call__(
        self, attack: Attack, observations: list[Observation], rng: torch.Generator, **limits: Unpack[Limits]
    ) -> list[Reconstruction]:
        self.played.run(self.name, self.seconds, attack, observations, rng)
        return self.played.guesses[self.name]


def _result(rows: Sequence[Rehearsed], guesses: Mapping[str, list[Reconstruction]], stage: Stage, seed: int) -> Result:
    """The attack that leaked most; its interval and its p-value are corrected for how many there were (Bonferroni)."""
    scored = {row.name: row.leak for row in rows if row.leak is not None}
    tried_in_all = sum(len(victim) for victim in stage.victims)
    notes = {"attack": None, "tried": {row.name: _said(row) for row in rows}}
    if not scored:
        nothing = dict.fromkeys(("leak_low", "leak_high", "p_value", "told_apart", "chance", "ssim", "ssim_prior"))
        return Result(
            {"leak": None, **nothing, "found": 0, "images": tried_in_all, "attacks": 0, "beyond": 0}, notes=notes
        )
    best = max(scored, key=lambda name: scored[name].mean)
    found = _against(guesses[best], stage, 1 - (1 - LEVEL) / len(scored), seed)
    corrected = min(1.0, found.p_value * len(scored))
    prior = stage.learning.images.mean(0)
    similar = [
        row
        for guess, v in zip(guesses[best], stage.victims, strict=True)
        for row in score(guess.images, v.images, prior)
    ]
    beyond = found.leak.low > 0 and corrected < 1 - LEVEL
    return Result(
        {
            "leak": found.leak.mean,
            "leak_low": found.leak.low,
            "leak_high": found.leak.high,
            "p_value": corrected,
            "told_apart": found.told_apart.mean,
            "chance": found.chance,
            "ssim": sum(row.ssim for row in similar) / len(similar),
            "ssim_prior": sum(row.ssim_prior or 0.0 for row in similar) / len(similar),
            "found": sum(int(each.sum()) for each in found.found),
            "images": tried_in_all,
            "attacks": len(scored),
            "beyond": int(beyond),
        },
        images={"originals": stage.victims[0].images[:4], "reconstructions": guesses[best][0].images[:4]},
        notes={**notes, "attack": best},
    )


def _against(guesses: list[Reconstruction], stage: Stage, level: float, seed: int) -> AgainstOthers:
    return against_others(
        [guess.images for guess in guesses],
        [victim.images for victim in stage.victims],
        stage.learning.images.mean(0),
        generator(seed, "map", "bootstrap"),
        stage.others,
        [bool(guess.nothing) for guess in guesses],
        level,
    )


def _said(row: Rehearsed) -> str:
    if row.leak is None:
        return row.reason or "made no guess"
    return f"leak {row.leak.mean:.3f}" + (f" ({row.reason})" if row.reason else "")

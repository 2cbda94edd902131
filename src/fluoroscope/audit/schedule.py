"""Which cells an audit has, the telling ones first, and about how long each will take on this machine."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fluoroscope.attacks.closed_form.span import Span
from fluoroscope.attacks.gradient_inversion.attack import Inversion
from fluoroscope.audit.cell import AuditCell
from fluoroscope.audit.chosen_attacks import expected
from fluoroscope.audit.crafted_model import CraftedModel, Guard
from fluoroscope.audit.participation import Participation
from fluoroscope.audit.plan import AuditPlan
from fluoroscope.audit.reconstruction import FEW, Reconstruction
from fluoroscope.audit.utility import Utility
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.local_training import local_training
from fluoroscope.federation.task import Task, load_task
from fluoroscope.findings import NO_DEFENCE
from fluoroscope.rng import generator
from fluoroscope.scenarios.candidates import AUTO

_START = 2.0
"""Seconds in which a cell loads its images and what it needs."""
_FEDERATION = 0.7
"""Seconds of a federation beside its training: its images, its tests, its records."""
_BACK_AND_FORTH = 2.5
"""What an attack's iteration costs in training steps (python -m benchmarks pullback)."""


def cells_of(plan: AuditPlan) -> list[AuditCell]:
    """Everything that the plan asks for: first all threats without a defence, then setting by setting."""
    found: list[AuditCell] = []
    threats = plan.audit.threats
    for label in plan.labels:
        federation = plan.federation(label)
        content = federation.model_dump_json()
        encrypted = load_task(federation).defence.encryption is not None
        found.append(Utility(label, content))
        if "curious-server" in threats and not encrypted:
            found += [
                Reconstruction(label, content, attack, plan.reconstruction_target.name, r, plan.audit.victims)
                for r in plan.attacked_rounds
                for attack in plan.audit.attacks
            ]
        if "malicious-server" in threats and label == NO_DEFENCE:
            victim = plan.imprint_target
            batch = victim.batch_size or plan.training.batch_size
            steps = plan.training.epochs * -(-len(victim.train) // batch)
            found += [part(label, content, victim.name, steps) for part in (CraftedModel, Guard)]
        if "curious-client" in threats and not encrypted:
            found.append(_game(plan, label))
    return found


def _game(plan: AuditPlan, label: str) -> Participation:
    target = plan.inference_target.name
    others = [split for split in plan.task.clients if split.name != target]
    if len(others) < 2:
        raise Misconfigured(
            f"the curious client needs two clients beside its target, and there are {len(others) + 1} in all: leave "
            "curious-client out of audit.threats."
        )
    attacker = max(others, key=lambda split: len(split.train)).name
    audit = plan.audit
    content = plan.game(label, attacker).model_dump_json()
    return Participation(label, content, attacker, target, audit.games, audit.shadow)


@dataclass(frozen=True)
class Forecast:
    """What an audit will take: seconds by cell, on one thread each."""

    seconds: dict[str, float]
    workers: int

    @property
    def minutes(self) -> float:
        """With all workers busy."""
        return sum(self.seconds.values()) / self.workers / 60

    def within(self, cells: Sequence[AuditCell], minutes: float) -> list[AuditCell]:
        """The first cells that are expected to fit; the first of all is always tried."""
        kept: list[AuditCell] = []
        left = minutes * 60 * self.workers
        for cell in cells:
            left -= self.seconds[cell.id]
            if kept and left < 0:
                break
            kept.append(cell)
        return kept


def forecast(plan: AuditPlan, cells: Sequence[AuditCell], workers: int) -> Forecast:
    """From a few training steps, timed here and now."""
    step = _seconds_an_image(plan.task)
    return Forecast({cell.id: _START + _overhead(cell) + _images(cell) * step for cell in cells}, workers)


def _seconds_an_image(task: Task) -> float:
    """Of training, in batches as the plan has them, on one thread."""
    settings = task.plan.training
    count = min(len(task.images), 4 * settings.batch_size)
    batch = task.images.batch.subset(range(count))
    training = task.training(count, settings.batch_size, 1, settings.lr)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        taken = []
        for _ in range(2):  # the first warms up
            began = time.perf_counter()
            local_training(task.model, task.initial_state, batch, training, generator(0, "forecast"))
            taken.append(time.perf_counter() - began)
    finally:
        torch.set_num_threads(threads)
    return min(taken) / count


def _overhead(cell: AuditCell) -> float:
    if isinstance(cell, Reconstruction) and cell.attack_name == AUTO:
        return _FEDERATION + expected(1, 1, 1)[0]
    return _FEDERATION * (2 * cell.games if isinstance(cell, Participation) else 1)


def _images(cell: AuditCell) -> float:
    """Images that pass through training, or what costs as much."""
    plan = cell.federation
    task = load_task(plan)
    clients = task.clients
    trained = sum(len(split.train) for split in clients) * plan.training.epochs * plan.rounds * plan.strategy.fraction
    trained += plan.strategy.pretrain_epochs * len(task.partition.auxiliary)
    if isinstance(cell, Participation):
        return 2 * cell.games * trained
    if isinstance(cell, Reconstruction):
        held = next(len(split.train) for split in clients if split.name == cell.client)
        guessed = held * cell.victims if held <= FEW else plan.training.batch_size
        if cell.attack_name == AUTO:
            each, victims = (held, cell.victims) if held <= FEW else (plan.training.batch_size, 1)
            return _BACK_AND_FORTH * expected(victims, each, len(task.partition.auxiliary))[1]
        return _BACK_AND_FORTH * guessed * _iterations(cell)
    if isinstance(cell, CraftedModel | Guard):
        return 2 * sum(len(split.train) for split in clients) * plan.training.epochs
    return trained


def _iterations(cell: Reconstruction) -> int:
    attack = cell.attack
    if isinstance(attack, Span):
        return attack.budget.iterations * 2  # some images get another start
    if isinstance(attack, Inversion):
        stages = attack.stages
        return attack.budget.iterations + (stages.iterations + stages.coarse.iterations if stages else 0)
    return 1000

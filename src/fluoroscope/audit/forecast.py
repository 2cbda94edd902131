"""About how long each cell will take on this machine: from timed pieces, and from what has already run."""

import heapq
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from fluoroscope.attacks.closed_form.span import Span
from fluoroscope.attacks.gradient_inversion.attack import Inversion
from fluoroscope.attacks.inference.learned_counts import LearnedCounts
from fluoroscope.attacks.learned.decoder import DecoderInversion
from fluoroscope.attacks.learned.feature_decoder import FeatureDecoder
from fluoroscope.attacks.learned.map_inversion import MapInversion
from fluoroscope.attacks.learned.ridge import RidgeInversion
from fluoroscope.attacks.learned.simulated_rounds import FEWEST_CLIENTS, MOST_IMAGES
from fluoroscope.audit.cell import AuditCell
from fluoroscope.audit.chosen_attacks import expected
from fluoroscope.audit.claim import ClaimTest
from fluoroscope.audit.client_metrics import ClientMetrics
from fluoroscope.audit.crafted_model import CraftedModel, Guard
from fluoroscope.audit.label_counts import LabelCounts
from fluoroscope.audit.membership import MEMBERS, Membership
from fluoroscope.audit.participation import Participation
from fluoroscope.audit.plan import AuditPlan
from fluoroscope.audit.reconstruction import FEW, Reconstruction
from fluoroscope.audit.server_cell import ServerCell
from fluoroscope.audit.utility import Utility
from fluoroscope.federation.local_training import local_training
from fluoroscope.federation.task import Task, load_task
from fluoroscope.rng import generator
from fluoroscope.scenarios.auto_attacks import AUTO

_START = {Reconstruction: 6.0, CraftedModel: 3.0}
"""Seconds in which a cell starts what it needs: an attack's own process, a network of recognition, SecAgg+."""
_USUAL_START = 0.3
_FORWARD = 0.3
"""What asking a model about an image costs in training steps."""
_FEDERATION = 0.5
"""Seconds of a federation beside its training: its images, its tests, its records."""
_ROUND = 0.03
"""Seconds of a simulated client's round beside its training."""
_BACK_AND_FORTH = 2.5
"""What an attack's iteration costs in training steps (python -m benchmarks pullback)."""


@dataclass(frozen=True)
class Forecast:
    """What an audit will take: seconds by cell, on one thread each."""

    seconds: dict[str, float]
    workers: int

    def minutes(self, cells: Sequence[AuditCell]) -> float:
        """Of these cells in this order, each taken by the first worker that is free; whoever needs a federation that
        another one trains waits for it."""
        free, trained = [0.0] * self.workers, dict[str, float]()
        for cell in cells:
            began = heapq.heappop(free)
            if cell.plan in trained:
                began = max(began, trained[cell.plan])
            ended = began + self.seconds[cell.id]
            if isinstance(cell, Utility):
                trained[cell.plan] = ended
            heapq.heappush(free, ended)
        return max(free) / 60

    def within(self, cells: Sequence[AuditCell], minutes: float) -> list[AuditCell]:
        """Those that are expected to fit, the first ones first; one that is too long lets shorter ones pass."""
        kept: list[AuditCell] = []
        left = minutes * 60 * self.workers
        for cell in cells:
            if self.seconds[cell.id] <= left:
                left -= self.seconds[cell.id]
                kept.append(cell)
        return kept

    def corrected(self, cells: Sequence[AuditCell], measured: Mapping[str, float]) -> "Forecast":
        """With what cells of this audit took: others of the same kind and attack are scaled alike, and those of which
        none has run by the median of all."""
        factors: dict[tuple[str, str], list[float]] = {}
        for cell in cells:
            if cell.id in measured and self.seconds.get(cell.id):
                factors.setdefault(_sort(cell), []).append(measured[cell.id] / self.seconds[cell.id])
        every = [factor for found in factors.values() for factor in found]
        if not every:
            return self
        usual = statistics.median(every)
        scaled = {
            cell.id: self.seconds[cell.id] * statistics.fmean(factors.get(_sort(cell), [usual]))
            for cell in cells
            if cell.id in self.seconds
        }
        return replace(self, seconds={**self.seconds, **scaled})


def forecast(plan: AuditPlan, cells: Sequence[AuditCell], workers: int) -> Forecast:
    """From a few training steps, timed here and now."""
    step = seconds_per_image(plan.task)
    return Forecast({cell.id: expected_seconds(cell, step) for cell in cells}, workers)


def seconds_per_image(task: Task) -> float:
    """Of training, in batches as the plan has them, on one thread."""
    settings = task.plan.training
    count = min(len(task.images), 4 * settings.batch_size)
    batch = task.images.batch.subset(range(count))
    training = task.training(count, settings.batch_size, 1, settings.lr)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        taken = []
        for _ in range(3):  # the first warms up
            began = time.perf_counter()
            local_training(task.model, task.initial_state, batch, training, generator(0, "forecast"))
            taken.append(time.perf_counter() - began)
    finally:
        torch.set_num_threads(threads)
    return min(taken) / count


def expected_seconds(cell: AuditCell, step: float) -> float:
    """Of a cell, where a federation that it shares with others is trained; `step` is the time per training image."""
    plan = cell.federation
    task = load_task(plan)
    start = next((seconds for kind, seconds in _START.items() if isinstance(cell, kind)), _USUAL_START)
    if isinstance(cell, ClientMetrics):
        return start
    if isinstance(cell, ClaimTest):
        return start + cell.rounds * _ROUND + step * cell.images
    if isinstance(cell, Guard):  # it looks at a model, and refuses to train it
        return start + step * len(task.clients)
    if isinstance(cell, Participation):
        return start + 2 * cell.games * (_FEDERATION + step * _trained(task))
    if isinstance(cell, Reconstruction):
        held = next(len(split.train) for split in task.clients if split.name == cell.client)
        if cell.attack_name == AUTO:
            each, victims = (held, cell.victims) if held <= FEW else (plan.training.batch_size, 1)
            attacks = cell.attack
            assert isinstance(attacks, Mapping)
            seconds, images = expected(attacks, victims, each, len(task.partition.auxiliary))
            return start + seconds + step * _BACK_AND_FORTH * images
        if isinstance(cell.attack, RidgeInversion | DecoderInversion | MapInversion | FeatureDecoder):
            rounds = max(FEWEST_CLIENTS, min(len(task.partition.auxiliary), MOST_IMAGES // held))
            return start + rounds * (_ROUND + step * held * plan.training.epochs)
        guessed = held * cell.victims if held <= FEW else plan.training.batch_size
        return start + step * _BACK_AND_FORTH * guessed * _iterations(cell, held)
    if isinstance(cell, CraftedModel):
        return start + step * 2 * sum(len(split.train) for split in task.clients) * plan.training.epochs
    if isinstance(cell, ServerCell):
        sizes = [len(split.train) for split in task.clients if split.name in cell.clients]
        simulated = _simulated(cell) * (len(sizes) * _ROUND + step * sum(sizes) * plan.training.epochs)
        asked = step * _FORWARD * sum(min(MEMBERS, images) for images in sizes)
        return start + simulated + asked * max(1, _simulated(cell))
    return start + _FEDERATION + step * _trained(task)


def _sort(cell: AuditCell) -> tuple[str, str]:
    return cell.kind, str(cell.settings.get("attack"))


def _trained(task: Task) -> float:
    """Images that pass through the training of a federation."""
    plan = task.plan
    per_round = sum(len(split.train) for split in task.clients) * plan.training.epochs * plan.strategy.fraction
    return per_round * plan.rounds + plan.strategy.pretrain_epochs * len(task.partition.auxiliary)


def _simulated(cell: ServerCell) -> int:
    """Rounds of each of its clients that the cell plays."""
    if isinstance(cell, LabelCounts):
        attack = cell.attack
        return cell.stand_ins + (attack.simulations if isinstance(attack, LearnedCounts) else 1)
    if isinstance(cell, Membership) and cell.attack_name != "loss":
        return cell.shadows
    return 0


def _iterations(cell: Reconstruction, images: int) -> int:
    attack = cell.attack
    if isinstance(attack, Span):
        return attack.budget.iterations * 2  # some images get another start
    if isinstance(attack, Inversion):
        stages = attack.stages
        return attack.budget.iterations + (stages.extra(images) if stages else 0)
    return 1000

"""P3's client inference: the relative difference of the losses, and the game of telling in from out."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fluoroscope.attacks.inference.participation import Difference, LossDifference
from fluoroscope.cells import CellContext, Result
from fluoroscope.federation.evaluation import evaluate
from fluoroscope.rng import generator
from fluoroscope.scenarios.shadow_set import Shadow, shadow_set
from fluoroscope.scores.roc import Roc, roc
from fluoroscope.studies.p3.federation import ATTACKER, TARGET, Federation, Split, Trained
from fluoroscope.studies.study import Size
from fluoroscope.threat_models import ParticipantObservation
from fluoroscope.types import LabelledImages


@dataclass(frozen=True)
class ClientInference:
    """Federations of several seeds with the target in and, where the game is played, with the target out."""

    strategy: str
    privacy: str
    shadow: Shadow = "overlapping"
    game: bool = False
    size: Size = "small"
    seeds: int = 5
    data: str = "phantom/brain"

    def _federation(self, split: Split) -> Federation:
        return Federation(self.strategy, self.privacy, split, self.size, self.data)

    @property
    def attack(self) -> list[str]:
        return [self._federation(split).plan(0, 0).fingerprint for split in ("odd-client", "without-odd-client")]

    @property
    def settings(self) -> dict[str, Any]:
        return {
            **self._federation("odd-client").columns,
            "shadow": self.shadow,
            "seeds": self.seeds,
        }

    def run(self, context: CellContext) -> Result:
        taking_part: list[Trained] = []
        away: list[Trained] = []
        shadows: list[LabelledImages] = []
        for number in range(self.seeds):
            seed = context.seed + number
            taking_part.append(self._federation("odd-client").trained(seed, context.seed, context.folder))
            shadows.append(shadow_set(taking_part[-1].task, TARGET, self.shadow, seed))
            if self.game:
                away.append(self._federation("without-odd-client").trained(seed, context.seed, context.folder))
            context.on_progress((number + 1) / self.seeds)
        attack = LossDifference()
        first = [
            attack.differences(_rounds(run, 1), shadow)[0] for run, shadow in zip(taking_part, shadows, strict=True)
        ]
        measures = {**_losses(first), "test_loss": statistics.fmean(map(_test_loss, taking_part))}
        if not self.game:
            return Result(measures)
        found = {}
        for name, last in (("", 1), ("all_rounds_", taking_part[0].plan.rounds)):
            inside, outside = (
                torch.stack(
                    [
                        attack.run(_rounds(run, last), shadow, generator(context.seed, "p3", "inference")).mean()
                        for run, shadow in zip(runs, shadows, strict=True)
                    ]
                )
                for runs in (taking_part, away)
            )
            found[name] = roc(inside, outside, generator(context.seed, "p3", "permutations"))
        curves: dict[str, list[float | None]] = {}
        for name, curve in found.items():
            measures |= _told(name, curve)
            curves |= {
                f"{name}false_positive_rate": curve.false_positive_rate.tolist(),
                f"{name}true_positive_rate": curve.true_positive_rate.tolist(),
            }
        return Result(measures, curves)


def _rounds(run: Trained, last: int) -> list[ParticipantObservation]:
    """What the attacker sees of the rounds up to this one."""
    place = [split.name for split in run.task.clients].index(ATTACKER)
    return [run.seen(r, place) for r in range(1, last + 1)]


def _losses(found: Sequence[Difference]) -> dict[str, float | None]:
    percents = [each.percent for each in found]
    return {
        "aggregated": statistics.fmean(each.aggregated for each in found),
        "target": statistics.fmean(each.target for each in found),
        "difference": statistics.fmean(percents),
        "difference_std": statistics.stdev(percents) if len(percents) > 1 else None,
    }


def _test_loss(run: Trained) -> float:
    """After round 1 (P3 table 11)."""
    task = run.task
    held_out = task.images.batch.subset(task.partition.test)
    return float(evaluate(task.model, run.state(1), held_out, task.normalisation)["loss"])


def _told(name: str, curve: Roc) -> dict[str, float]:
    return {
        f"{name}auc": curve.auc.mean,
        f"{name}auc_low": curve.auc.low,
        f"{name}auc_high": curve.auc.high,
        f"{name}advantage": curve.advantage,
        f"{name}p_value": curve.p_value,
    }

"""A malicious server: images from the secure sum, and the guard that refuses its model."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fluoroscope.attacks.imprint import Peeling
from fluoroscope.audit.cell import AuditCell
from fluoroscope.audit.scored import score
from fluoroscope.cells import CellContext, Result
from fluoroscope.federation.task import Task, load_task
from fluoroscope.scenarios.malicious_server import (
    MaliciousServer,
    Outcome,
    chosen_victims,
    participants,
    run_malicious_rounds,
)
from fluoroscope.scores.intervals import wilson

SHOWN = 6


@dataclass(frozen=True)
class _CraftedRound(AuditCell):
    """A round with a crafted model."""

    threat: ClassVar[str | None] = "malicious-server"
    client: str = "client-1"
    steps: int = 1
    """That the victim takes in a round."""

    @property
    def settings(self) -> dict[str, Any]:
        return {"attack": "medileak", "client": self.client, "aggregation": "secagg+", "steps": self.steps}


@dataclass(frozen=True)
class CraftedModel(_CraftedRound):
    """One round of P2's attack through Flower's SecAgg+."""

    kind: ClassVar[str] = "crafted-model"

    def run(self, context: CellContext) -> Result:
        task = load_task(self.federation)
        outcome = _round(task, self.client, guard=False, seed=context.seed)
        (recoveries,) = outcome.recoveries
        found = recoveries.score
        scores = {
            "rate": score(found.rate, leakier=True),
            "recovered": score(int(found.recovered.sum()), leakier=True, n=len(found.recovered)),
            "images": score(len(found.recovered)),
            "psnr": score(recoveries.psnr, leakier=True),
            "wrong": score(recoveries.wrong),
        }
        right = found.recovered.nonzero()[:SHOWN, 0]
        truth = next(each.batch.images for each in participants(task) if each.name == self.client)
        recovered = recoveries.recovered.images[found.reconstruction[right]].clamp(0, 1)
        gallery = [
            {
                "caption": f"{self.client}, image {i + 1}",
                "scores": {"ssim": float(found.ssim[i]), "psnr": float(found.psnr[i])},
            }
            for i in right.tolist()
        ]
        prior = task.images.batch.images[list(task.partition.auxiliary)].mean(0)
        images = {"original": truth[right], "reconstruction": recovered, "prior": prior}
        return Result({}, images=images if gallery else {}, notes={"scores": scores, "gallery": gallery})


@dataclass(frozen=True)
class Guard(_CraftedRound):
    """The same round, in which every client looks at the model first."""

    kind: ClassVar[str] = "guard"

    def run(self, context: CellContext) -> Result:
        task = load_task(self.federation)
        outcome = _round(task, self.client, guard=True, seed=context.seed)
        verdicts: list[dict[str, Any]] = [
            {
                "client": name,
                "refused": verdict.refused,
                "reasons": [reason.sentence for reason in verdict.reasons if reason.severity == "refuse"],
            }
            for name, verdict in sorted(outcome.verdicts.items())
        ]
        got = sum(int(each.score.recovered.sum()) for each in outcome.recoveries)
        held = next(len(split.train) for split in task.clients if split.name == self.client)
        scores = {
            "refused": score(sum(verdict["refused"] for verdict in verdicts), leakier=False, n=len(verdicts)),
            "clients": score(len(verdicts)),
            "recovered": score(got, leakier=True, n=held),
            "rate": score(wilson(got, held), leakier=True),
        }
        return Result({}, notes={"scores": scores, "verdicts": verdicts})


def _round(task: Task, client: str, guard: bool, seed: int) -> Outcome:
    (victim,) = chosen_victims(task, [client])
    split = task.clients[victim]
    steady = (split.batch_size or task.plan.training.batch_size) < len(split.train)
    neurons = max(16, 2 * len(split.train))  # three features need some even for a single image
    return run_malicious_rounds(task, MaliciousServer((victim,), 1, neurons, Peeling(), "secagg+", steady), guard, seed)

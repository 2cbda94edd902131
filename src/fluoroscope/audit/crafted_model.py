"""A malicious server: images from the secure sum, and the guard that refuses its model."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fluoroscope.attacks.imprint import Subspace
from fluoroscope.audit.cell import AuditCell
from fluoroscope.audit.gallery import shown
from fluoroscope.audit.kept import result_of
from fluoroscope.audit.scored import Measured, scores_of
from fluoroscope.cells import CellContext, Result
from fluoroscope.federation.task import Task, load_task
from fluoroscope.findings import Finding, GuardVerdict, Kind
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

    def _played(self, task: Task, seed: int, guard: bool) -> Outcome:
        (victim,) = chosen_victims(task, [self.client])
        split = task.clients[victim]
        steady = (split.batch_size or task.plan.training.batch_size) < len(split.train)
        # Twice the images, as P2 has it, is enough of a hundred; of a few it is luck which bins they fall into.
        neurons = 2 * len(split.train) + 48
        server = MaliciousServer((victim,), 1, neurons, Subspace(), "secagg+", steady)
        return run_malicious_rounds(task, server, guard, seed)


@dataclass(frozen=True)
class CraftedModel(_CraftedRound):
    """One round of P2's attack through Flower's SecAgg+."""

    kind: ClassVar[Kind] = "crafted-model"

    def run(self, context: CellContext) -> Result:
        task = load_task(self.federation)
        outcome = self._played(task, context.seed, guard=False)
        (recoveries,) = outcome.recoveries
        found = recoveries.score
        scores = scores_of(
            self.kind,
            rate=found.rate,
            recovered=Measured(int(found.recovered.sum()), len(found.recovered)),
            images=len(found.recovered),
            psnr=recoveries.psnr,
            wrong=recoveries.wrong,
        )
        right = found.recovered.nonzero()[:SHOWN, 0]
        truth = next(each.batch.images for each in participants(task) if each.name == self.client)
        recovered = recoveries.recovered.images[found.reconstruction[right]].clamp(0, 1)
        gallery = shown(
            self.id,
            [f"{self.client}, image {i + 1}" for i in right.tolist()],
            [{"ssim": float(found.ssim[i]), "psnr": float(found.psnr[i])} for i in right.tolist()],
        )
        prior = task.images.batch.images[list(task.partition.auxiliary)].mean(0)
        images = {"original": truth[right], "reconstruction": recovered, "prior": prior}
        return result_of(Finding(scores=scores, gallery=gallery), images if gallery else {})


@dataclass(frozen=True)
class Guard(_CraftedRound):
    """The same round, in which every client looks at the model first."""

    kind: ClassVar[Kind] = "guard"

    def run(self, context: CellContext) -> Result:
        task = load_task(self.federation)
        outcome = self._played(task, context.seed, guard=True)
        verdicts = tuple(
            GuardVerdict(
                client=name,
                refused=verdict.refused,
                reasons=tuple(reason.sentence for reason in verdict.reasons if reason.severity == "refuse"),
            )
            for name, verdict in sorted(outcome.verdicts.items())
        )
        got = sum(int(each.score.recovered.sum()) for each in outcome.recoveries)
        held = next(len(split.train) for split in task.clients if split.name == self.client)
        scores = scores_of(
            self.kind,
            refused=Measured(sum(verdict.refused for verdict in verdicts), len(verdicts)),
            clients=len(verdicts),
            recovered=Measured(got, held),
            rate=wilson(got, held),
        )
        return result_of(Finding(scores=scores, verdicts=verdicts))

"""A curious client: is the odd hospital in the federation or not? (P3)"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from fluoroscope.attacks.inference import INFERENCE_ATTACKS
from fluoroscope.audit.cell import AuditCell, trained
from fluoroscope.audit.kept import result_of
from fluoroscope.audit.scored import Measured, roc_curve, scores_of
from fluoroscope.cells import CellContext, Result
from fluoroscope.federation.plan import Plan
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import Task, load_task
from fluoroscope.federation.views import round_view
from fluoroscope.findings import Finding, Kind
from fluoroscope.rng import generator
from fluoroscope.scenarios.shadow_set import Shadow, shadow_set
from fluoroscope.scores.roc import roc
from fluoroscope.threat_models import THREATS, ParticipantObservation, observe_round


@dataclass(frozen=True)
class Participation(AuditCell):
    """As many federations with the target as without it, of other seeds; the attacker scores each."""

    kind: ClassVar[Kind] = "client-inference"
    threat: ClassVar[str | None] = "curious-client"
    attacker: str = "client-1"
    target: str = "client-2"
    games: int = 10
    shadow: Shadow = "overlapping"

    @property
    def settings(self) -> dict[str, Any]:
        return {"attack": "loss-difference", "client": self.target, "attacker": self.attacker, "shadow": self.shadow}

    def run(self, context: CellContext) -> Result:
        attack = INFERENCE_ATTACKS.get("participation")
        scores: dict[bool, list[float]] = {True: [], False: []}
        for number in range(self.games):
            seed = context.seed + number
            whole = self._of(seed, away=False)
            shadow = shadow_set(load_task(whole), self.target, self.shadow, seed)
            for away in (False, True):
                plan = self._of(seed, away)
                store, task = trained(plan, context.folder), load_task(plan)
                seen = [self._seen(task, store, r) for r in range(1, plan.rounds + 1)]
                rng = generator(seed, "audit", "participation")
                scores[away].append(float(attack.run(seen, shadow, rng).mean()))
            context.on_progress((number + 1) / self.games)
        inside, outside = (torch.tensor(scores[away], dtype=torch.float64) for away in (False, True))
        found = roc(inside, outside, generator(context.seed, "audit", "permutations"))
        games = 2 * self.games
        return result_of(
            Finding(
                scores=scores_of(
                    self.kind,
                    auc=Measured(found.auc, chance=0.5),
                    advantage=Measured(found.advantage, games, chance=0.0),
                    p_value=Measured(found.p_value, games),
                ),
                curves={"roc": roc_curve(found)},
            )
        )

    def _seen(self, task: Task, store: RecordStore, server_round: int) -> ParticipantObservation:
        """What the attacker, who takes part, sees of a round."""
        place = [split.name for split in task.clients].index(self.attacker)
        training = task.local_training(place, task.round_config(server_round))
        return observe_round(round_view(task, store, server_round), training, THREATS.get("curious-client"))

    def _of(self, seed: int, away: bool) -> Plan:
        plan = self.federation
        partition = plan.partition.model_copy(update={"without": (self.target,) if away else ()})
        return plan.model_copy(update={"seed": seed, "partition": partition})

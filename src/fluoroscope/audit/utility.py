"""What a defence costs: the federation's accuracy, and what it promises."""

import json
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from fluoroscope.audit.cell import AuditCell, trained
from fluoroscope.audit.scored import curve, score
from fluoroscope.cells import CellContext, Result
from fluoroscope.federation.store import RecordStore
from fluoroscope.scores.intervals import wilson


@dataclass(frozen=True)
class Utility(AuditCell):
    """The federation itself."""

    kind: ClassVar[str] = "federation"

    @property
    def settings(self) -> dict[str, Any]:
        plan = self.federation
        return {"model": plan.model.name, "strategy": plan.strategy.name, "rounds": plan.rounds}

    def run(self, context: CellContext) -> Result:
        store = trained(self.federation, context.folder)
        result = json.loads((store.folder / "result.json").read_text())
        tested = (
            result["best"] or result["last"]
        )  # P1: the best model by the clients' validation is the one that is used
        rounds = [r for r in store.rounds() if r]
        accuracy = [store.manifest(r).validation_accuracy for r in rounds]
        curves = {"accuracy": curve(rounds, accuracy, "round", "validation accuracy")}
        scores = {}
        if tested:
            right = wilson(round(tested["accuracy"] * tested["images"]), tested["images"])
            scores = {"accuracy": score(right), **{k: score(tested[k]) for k in ("f1", "precision", "auc", "loss")}}
        spent = [_epsilon(store, r) for r in rounds]
        if spent[-1] is not None:
            scores["epsilon"] = score(spent[-1], leakier=True)
            curves["epsilon"] = curve(rounds, spent, "round", "epsilon spent")
        apart = [entry.distance if (entry := store.manifest(r).cohort) else None for r in rounds]
        if any(d is not None for d in apart):
            curves["distance"] = curve(rounds, apart, "round", "distance d between the clients")
        claims = [entry.claim for entry in store.manifest(rounds[-1]).clients.values()]
        worst = max(claims, key=lambda claim: claim.epsilon or 0.0)
        return Result({}, notes={"scores": scores, "curves": curves, "claim": asdict(worst)})


def _epsilon(store: RecordStore, server_round: int) -> float | None:
    """The most that a client has spent, where everyone's is counted."""
    spent = [entry.claim.epsilon for entry in store.manifest(server_round).clients.values()]
    return None if None in spent else max(value for value in spent if value is not None)

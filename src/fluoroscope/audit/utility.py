"""What a defence costs: the federation's accuracy, and what it promises."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fluoroscope.audit.cell import AuditCell, trained
from fluoroscope.audit.kept import result_of
from fluoroscope.audit.scored import curve, finite, scores_of
from fluoroscope.cells import CellContext, Result
from fluoroscope.federation.store import RecordStore
from fluoroscope.findings import Claim, Finding, Kind, Score
from fluoroscope.scores.intervals import wilson


@dataclass(frozen=True)
class Utility(AuditCell):
    """The federation itself."""

    kind: ClassVar[Kind] = "federation"

    @property
    def settings(self) -> dict[str, Any]:
        plan = self.federation
        return {"model": plan.model.name, "strategy": plan.strategy.name, "rounds": plan.rounds}

    def run(self, context: CellContext) -> Result:
        store = trained(self.federation, context.folder)
        result = store.result
        tested = (
            result["best"] or result["last"]
        )  # P1: the best model by the clients' validation is the one that is used
        rounds = [r for r in store.rounds() if r]
        accuracy = [store.manifest(r).validation_accuracy for r in rounds]
        curves = {"accuracy": curve(rounds, accuracy, "round", "validation accuracy")}
        scores: dict[str, Score] = {}
        if tested:
            right = wilson(round(tested["accuracy"] * tested["images"]), tested["images"])
            others = {name: tested[name] for name in ("f1", "precision", "auc", "loss")}
            scores = scores_of(self.kind, accuracy=right, **others)
        spent = [_epsilon(store, r) for r in rounds]
        if spent[-1] is not None:
            scores |= scores_of(self.kind, epsilon=spent[-1])
            curves["epsilon"] = curve(rounds, spent, "round", "epsilon spent")
        apart = [entry.distance if (entry := store.manifest(r).cohort) else None for r in rounds]
        if any(d is not None for d in apart):
            curves["distance"] = curve(rounds, apart, "round", "distance d between the clients")
        claims = [entry.claim for entry in store.manifest(rounds[-1]).clients.values()]
        worst = max(claims, key=lambda claim: claim.epsilon or 0.0)
        claim = Claim(
            epsilon=finite(worst.epsilon),
            delta=finite(worst.delta),
            unit=worst.unit,
            statement=worst.statement,
            relation=worst.relation,
            trust=worst.trust,
        )
        return result_of(Finding(scores=scores, curves=curves, claim=claim))


def _epsilon(store: RecordStore, server_round: int) -> float | None:
    """The most that a client has spent, where everyone's is counted."""
    spent = [entry.claim.epsilon for entry in store.manifest(server_round).clients.values()]
    return None if None in spent else max(value for value in spent if value is not None)

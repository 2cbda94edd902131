"""Membership and source inference as cells: who was trained on, and by whom?"""

import statistics
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from fluoroscope.attacks.inference import INFERENCE_ATTACKS
from fluoroscope.attacks.inference.lira import Lira
from fluoroscope.cells import CellContext, Result
from fluoroscope.rng import generator
from fluoroscope.scenarios.candidates import Case, records
from fluoroscope.scores.intervals import wilson
from fluoroscope.scores.roc import roc, true_positives_at
from fluoroscope.studies.p3.candidates import ATTACKER, ROUND, SCALES, VICTIM, Overfitted, case
from fluoroscope.studies.p3.federation import Trained
from fluoroscope.studies.p3.shadow_rounds import FederationShadows, Seat
from fluoroscope.studies.study import Size
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Observation

Attack = Literal["loss", "lira"]


@dataclass(frozen=True)
class Membership:
    """The candidates of several federations, each by its own attack, pooled into one ROC."""

    seat: Seat
    """Where the attacker sits: at the server, or at a client."""
    name: Attack
    privacy: str
    size: Size = "small"
    seeds: int = 4
    data: str = "phantom/brain"

    @property
    def attack(self) -> list[Any]:
        scale = SCALES[self.size]
        shadows = [scale["shadows"], scale["others"]] if self.name == "lira" else []
        return [_federation(self).plan(0).fingerprint, scale["members"], *shadows]

    @property
    def settings(self) -> dict[str, Any]:
        shadows = SCALES[self.size]["shadows"] if self.name == "lira" else None
        seen = {"seat": self.seat, "attack": self.name, "privacy": self.privacy, "shadows": shadows}
        return {**_settings(self), **seen}

    def run(self, context: CellContext) -> Result:
        scores, truths, accuracies, claims = [], [], [], []
        for number in range(self.seeds):
            run = _federation(self).trained(context.seed + number, context.folder)
            asked = case(run.task, SCALES[self.size]["members"])
            scores.append(self._scores(run, asked, context))
            truths.append(asked.members)
            accuracies.append(run.test["accuracy"])
            claims.append(_epsilon(run))
            context.on_progress((number + 1) / self.seeds)
        found, members = torch.cat(scores), torch.cat(truths)
        curve = roc(found[members], found[~members], generator(context.seed, "p3", "permutations"))
        return Result(
            {
                "members": int(members.sum()),
                "auc": curve.auc.mean,
                "auc_low": curve.auc.low,
                "auc_high": curve.auc.high,
                "advantage": curve.advantage,
                "p_value": curve.p_value,
                "tpr_at_5_fpr": true_positives_at(curve, 0.05),
                "accuracy": statistics.fmean(accuracies),
                "epsilon": claims[0],
            },
            {
                "false_positive_rate": curve.false_positive_rate.tolist(),
                "true_positive_rate": curve.true_positive_rate.tolist(),
            },
        )

    def _scores(self, run: Trained, asked: Case, context: CellContext) -> Tensor:
        """What the attacker sees decides them; `asked.members` is not looked at."""
        attack, scale = INFERENCE_ATTACKS.get(self.name), SCALES[self.size]
        if isinstance(attack, Lira):
            game = FederationShadows(run, self.seat, scale["shadows"], scale["others"], context.folder)
            attack = replace(attack, game=game)
        rng = generator(context.seed, "p3", "inference")
        return attack.run([_seen(run, self.seat)], asked.candidates, rng, asked.pool)[0]


@dataclass(frozen=True)
class Source:
    """All clients' training images of several federations: the server guesses whose each is."""

    privacy: str
    size: Size = "small"
    seeds: int = 4
    data: str = "phantom/brain"

    @property
    def attack(self) -> str:
        return _federation(self).plan(0).fingerprint

    @property
    def settings(self) -> dict[str, Any]:
        return {**_settings(self), "seat": "server", "privacy": self.privacy}

    def run(self, context: CellContext) -> Result:
        right: list[Tensor] = []
        accuracies, claims = [], []
        for number in range(self.seeds):
            run = _federation(self).trained(context.seed + number, context.folder)
            task, clients = run.task, run.task.clients
            seen = [_sent(run, place) for place in range(len(clients))]
            asked = records(task, [i for split in clients for i in split.train])
            owners = torch.tensor([place for place, split in enumerate(clients) for _ in split.train])
            scores = INFERENCE_ATTACKS.get("source").run(seen, asked, generator(context.seed, "p3", "inference"))
            right.append(scores.argmax(0) == owners)
            accuracies.append(run.test["accuracy"])
            claims.append(_epsilon(run))
            context.on_progress((number + 1) / self.seeds)
        hits = torch.cat(right)
        share = wilson(int(hits.sum()), len(hits))
        return Result(
            {
                "records": len(hits),
                "accuracy": share.mean,
                "low": share.low,
                "high": share.high,
                "chance": 1 / SCALES[self.size]["clients"],
                "test_accuracy": statistics.fmean(accuracies),
                "epsilon": claims[0],
            }
        )


def _federation(cell: Membership | Source) -> Overfitted:
    return Overfitted(cell.privacy, cell.size, cell.data)


def _settings(cell: Membership | Source) -> dict[str, Any]:
    plan, scale = _federation(cell).plan(0), SCALES[cell.size]
    return {
        "data": cell.data,
        "size": plan.data.size,
        "round": ROUND,
        "epochs": plan.training.epochs,
        "clients": scale["clients"],
        "seeds": cell.seeds,
    }


def _seen(run: Trained, seat: Seat) -> Observation:
    """The victim's model as it was sent, or the global model of the same round."""
    return run.seen(ROUND, ATTACKER) if seat == "client" else _sent(run, VICTIM)


def _sent(run: Trained, client: int) -> Observation:
    """What the server sees of a client's round."""
    return observe(run.store.load(ROUND, run.task.clients[client].name), THREATS.get("curious-server"))


def _epsilon(run: Trained) -> float | None:
    """What the victim's defence claims for a record after the round; a claim about whole clients is none of it."""
    claim = run.store.load(ROUND, run.task.clients[VICTIM].name).claim
    return claim.epsilon if claim.unit == "record" else None

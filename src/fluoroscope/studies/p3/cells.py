"""P3's utility: a strategy under a privacy on a split, over several seeds."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_curve

from fluoroscope.cells import CellContext, Result
from fluoroscope.federation.evaluation import predict
from fluoroscope.studies.p3.federation import Federation, Split, Trained
from fluoroscope.studies.study import Size

GRID = np.linspace(0, 1, 51)
"""False-positive rates at which ROC curves are averaged over seeds."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Accuracy:
    """Federations of several seeds, scored on the clients' own test images or on the server's."""

    strategy: str
    privacy: str
    split: Split
    scored: Literal["clients", "test"] = "clients"
    size: Size = "small"
    seeds: int = 5
    data: str = "phantom/brain"

    @property
    def federation(self) -> Federation:
        return Federation(self.strategy, self.privacy, self.split, self.size, self.data)

    @property
    def attack(self) -> str:
        return self.federation.plan(0, 0).fingerprint

    @property
    def settings(self) -> dict[str, Any]:
        return {
            **self.federation.columns,
            "seeds": self.seeds,
            "scored_on": "clients' test images, last rounds" if self.scored == "clients" else "test set, last round",
        }

    def run(self, context: CellContext) -> Result:
        runs = []
        for number in range(self.seeds):
            runs.append(self.federation.trained(context.seed + number, context.seed, context.folder))
            context.on_progress((number + 1) / self.seeds)
        by_seed = [_last_rounds(run) if self.scored == "clients" else run.test for run in runs]
        distances = [_mean([d for r in run.rounds if (d := run.distance(r)) is not None]) for run in runs]
        accuracies = [each["accuracy"] for each in by_seed]
        return Result(
            {
                "accuracy": _mean(accuracies),
                "accuracy_std": statistics.stdev(accuracies) if len(accuracies) > 1 else None,
                **{key: _mean([each[key] for each in by_seed]) for key in ("f1", "precision", "auc", "loss")},
                "distance": _mean([d for d in distances if d is not None]),
            },
            curves=_curves(runs) if self.scored == "clients" else _roc(runs),
        )


def _last_rounds(run: Trained) -> Mapping[str, float]:
    """P3 tables 4 and 6: the mean over the last quarter of the rounds, of P3's 20 the last five."""
    last = run.rounds[-math.ceil(len(run.rounds) / 4) :]
    keys = ("accuracy", "f1", "precision", "auc", "loss")
    return {key: sum(run.aggregated(r, key) for r in last) / len(last) for key in keys}


def _curves(runs: Sequence[Trained]) -> dict[str, list[float | None]]:
    """By round: the accuracy's mean and range over the seeds, and the distance."""
    curves: dict[str, list[float | None]] = {"round": [float(r) for r in runs[0].rounds]}
    table = [[run.aggregated(r, "accuracy") for run in runs] for r in runs[0].rounds]
    curves["accuracy"] = [_mean(row) for row in table]
    curves["accuracy_low"], curves["accuracy_high"] = [min(row) for row in table], [max(row) for row in table]
    apart = [[d for run in runs if (d := run.distance(r)) is not None] for r in runs[0].rounds]
    curves["distance"] = [_mean(row) for row in apart]
    return curves


def _roc(runs: Sequence[Trained]) -> dict[str, list[float | None]]:
    """P3 appendix C: every (image, class) pair of the test set pooled; the mean and range over the seeds."""
    rates = np.stack([_true_positives(run) for run in runs])
    return {
        "false_positive_rate": GRID.tolist(),
        "true_positive_rate": rates.mean(0).tolist(),
        "true_positive_rate_low": rates.min(0).tolist(),
        "true_positive_rate_high": rates.max(0).tolist(),
    }


def _true_positives(run: Trained) -> Floats:
    task = run.task
    test = task.images.batch.subset(task.partition.test)
    chances = (
        predict(task.model, run.state(run.plan.rounds), test.images, task.normalisation).double().softmax(1).numpy()
    )
    truth = np.eye(chances.shape[1], dtype=int)[test.labels.numpy()]
    if not np.isfinite(chances).all():
        return np.full(len(GRID), np.nan)
    false_positives, true_positives, _ = roc_curve(truth.ravel(), chances.ravel())
    return np.asarray(np.interp(GRID, false_positives, true_positives), dtype=np.float64)


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None

"""How well a score tells two kinds apart: ROC, AUC, advantage, and what chance would give."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import brentq
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score, roc_curve
from torch import Tensor

from fluoroscope.errors import BadInput
from fluoroscope.scores.intervals import Interval
from fluoroscope.scores.permutations import permutation_p_value

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Roc:
    """Of an attacker whose score is high where it says yes."""

    auc: Interval
    advantage: float
    """The largest true-positive rate minus false-positive rate over all thresholds: chosen after the fact."""
    p_value: float
    """The share of relabellings that reach this AUC: where it is small, chance is not the explanation."""
    false_positive_rate: Floats
    true_positive_rate: Floats


def roc(yes: Tensor, no: Tensor, rng: torch.Generator, permutations: int = 2000, level: float = 0.95) -> Roc:
    """Of scores of cases where the answer is yes, and of cases where it is no."""
    if not len(yes) or not len(no):
        raise BadInput(f"a ROC curve needs cases of both kinds, not {len(yes)} and {len(no)}.")
    scores = torch.cat([yes, no]).detach().cpu().double().numpy()
    if not np.isfinite(scores).all():
        raise BadInput("a ROC curve needs finite scores; a diverged model gives none.")
    truth = np.r_[np.ones(len(yes), int), np.zeros(len(no), int)]
    auc = float(roc_auc_score(truth, scores))
    false_positives, true_positives, _ = roc_curve(truth, scores, drop_intermediate=False)
    low, high = _interval(auc, len(yes), len(no), level)
    return Roc(
        Interval(auc, low, high, len(scores)),
        float((true_positives - false_positives).max()),
        _permuted(scores, len(yes), auc, rng, permutations),
        false_positives,
        true_positives,
    )


def true_positives_at(curve: Roc, false_positive_rate: float) -> float:
    """The true-positive rate at the strictest threshold that keeps false positives within this rate."""
    return float(curve.true_positive_rate[curve.false_positive_rate <= false_positive_rate].max())


def _interval(auc: float, yes: int, no: int, level: float) -> tuple[float, float]:
    """Newcombe's score interval of an AUC (Statistics in Medicine 2006, method 5).

    Where the two kinds do not overlap a bootstrap has no width; this one still says what few cases leave open.
    """
    z, half = NormalDist().inv_cdf((1 + level) / 2), (yes + no) / 2 - 1

    def beyond(theta: float) -> float:
        spread = 1 + half * (1 - theta) / (2 - theta) + half * theta / (1 + theta)
        return abs(auc - theta) - z * math.sqrt(theta * (1 - theta) * spread / (yes * no))

    # At the estimate itself nothing is beyond, unless it is 0 or 1: then that side ends there.
    low = 0.0 if auc == 0 else brentq(beyond, 0.0, min(auc, 1 - 1e-12))
    high = 1.0 if auc == 1 else brentq(beyond, max(auc, 1e-12), 1.0)
    return float(low), float(high)


def _permuted(scores: Floats, yes: int, auc: float, rng: torch.Generator, permutations: int) -> float:
    """One-sided: how often labels dealt at random give at least this AUC; the observed one counts as one of them."""
    ranks = np.asarray(rankdata(scores), dtype=np.float64)
    orders = torch.stack([torch.randperm(len(scores), generator=rng)[:yes] for _ in range(permutations)]).numpy()
    dealt = (ranks[orders].sum(1) - yes * (yes + 1) / 2) / (yes * (len(scores) - yes))
    return permutation_p_value(int((dealt >= auc - 1e-12).sum()), permutations)

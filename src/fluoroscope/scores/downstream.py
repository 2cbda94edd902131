"""What recovered images are worth to whoever stole them: a classifier's scores on them (P2 table II)."""

from dataclasses import dataclass

from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor

from fluoroscope.errors import BadInput


@dataclass(frozen=True)
class Downstream:
    """Scores of a classifier of two classes; the second one is the positive."""

    tpr: float
    tnr: float
    accuracy: float
    auroc: float
    aupr: float


def downstream(logits: Tensor, labels: Tensor) -> Downstream:
    """Score `logits` (n, 2) against `labels` (n,), of which both classes must occur."""
    positive = labels.bool()
    if logits.ndim != 2 or logits.shape[1] != 2:
        raise BadInput(f"P2's downstream task has two classes, not logits of shape {tuple(logits.shape)}.")
    if positive.all() or not positive.any():
        raise BadInput("TPR and TNR need images of both classes; there is only one. Give more images.")
    probability = logits.double().softmax(1)[:, 1]
    guess = probability > 0.5
    return Downstream(
        tpr=float(guess[positive].double().mean()),
        tnr=float((~guess[~positive]).double().mean()),
        accuracy=float((guess == positive).double().mean()),
        auroc=float(roc_auc_score(positive.numpy(), probability.numpy())),
        aupr=float(average_precision_score(positive.numpy(), probability.numpy())),
    )

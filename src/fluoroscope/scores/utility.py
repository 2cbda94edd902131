"""What a model is worth: accuracy, macro F1 and precision, micro one-vs-rest AUC, loss (spec section 5)."""

from typing import TypedDict

import numpy as np
import torch
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score
from torch import Tensor


class Utility(TypedDict):
    """Scores of a classifier on one labelled set."""

    accuracy: float
    f1: float
    precision: float
    auc: float
    loss: float
    images: int


def utility(logits: Tensor, labels: Tensor) -> Utility:
    """Score `logits` (n, classes) against `labels` (n,).

    F1 and precision are means over all classes of the model, a class that is never predicted counting 0.
    AUC pools every (image, class) pair: micro-averaged one-vs-rest. A diverged model (non-finite logits) has none.
    """
    logits, labels = logits.detach().cpu().double(), labels.cpu()
    classes = logits.shape[1]
    probabilities = logits.softmax(1).numpy()
    truth, guess = labels.numpy(), probabilities.argmax(1)
    precision, _, f1, _ = precision_recall_fscore_support(
        truth, guess, labels=np.arange(classes), average="macro", zero_division=0
    )
    finite = bool(np.isfinite(probabilities).all())
    pairs = np.eye(classes, dtype=int)[truth]
    return Utility(
        accuracy=float((truth == guess).mean()),
        f1=float(f1),
        precision=float(precision),
        auc=float(roc_auc_score(pairs.ravel(), probabilities.ravel())) if finite else float("nan"),
        loss=float(torch.nn.functional.cross_entropy(logits, labels)),
        images=len(labels),
    )

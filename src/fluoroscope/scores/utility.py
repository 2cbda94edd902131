"""What a model is worth: accuracy, macro F1 and precision, micro one-vs-rest AUC, loss (spec section 5)."""

from typing import TypedDict

import numpy as np
from torch import Tensor

from fluoroscope.types import BinaryCrossEntropy, CrossEntropy


class Utility(TypedDict):
    """Scores of a classifier on one labelled set."""

    accuracy: float
    f1: float
    precision: float
    auc: float
    loss: float
    images: int


def utility(logits: Tensor, labels: Tensor) -> Utility:
    """Score `logits` (n, classes) against classes (n,), or against findings (n, classes) that are there or not.

    F1 and precision are means over all classes of the model, a class that is never predicted counting 0.
    AUC pools every (image, class) pair: micro-averaged one-vs-rest. A diverged model (non-finite logits) has none.
    Of findings, the accuracy is over every (image, finding) pair, and one is predicted where its probability is above
    a half.
    """
    from sklearn.metrics import precision_recall_fscore_support, roc_auc_score  # a second; training does without

    logits, labels = logits.detach().cpu().double(), labels.cpu()
    if labels.ndim == 2:
        probabilities, pairs = logits.sigmoid().numpy(), labels.numpy().astype(int)
        right, chosen = pairs, (probabilities > 0.5).astype(int)
        loss = BinaryCrossEntropy()(logits, labels.double())
    else:
        probabilities = logits.softmax(1).numpy()
        right, chosen = labels.numpy(), probabilities.argmax(1)
        pairs = np.eye(logits.shape[1], dtype=int)[right]
        loss = CrossEntropy()(logits, labels)
    precision, _, f1, _ = precision_recall_fscore_support(
        right, chosen, labels=np.arange(logits.shape[1]), average="macro", zero_division=0
    )
    rankable = bool(np.isfinite(probabilities).all()) and 0 < pairs.mean() < 1
    return Utility(
        accuracy=float((right == chosen).mean()),
        f1=float(f1),
        precision=float(precision),
        auc=float(roc_auc_score(pairs.ravel(), probabilities.ravel())) if rankable else float("nan"),
        loss=float(loss),
        images=len(labels),
    )

"""Whole numbers from fractions, so that nothing is lost and nobody is favoured."""

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]


def apportion(totals: Counts, shares: Shares) -> Counts:
    """Divides the images of each class (totals: classes) by shares (bins x classes); columns add up to the totals.

    What rounding leaves over goes to the bins that are owed most over all classes so far, so that equal shares
    give equal sums as well: P3 table 2 is 4 x 1280 although no class but the first divides by 4.
    """
    exact = totals * shares / shares.sum(axis=0)
    table: Counts = np.floor(exact + 1e-9).astype(np.int64)
    owed = np.zeros(len(shares))
    for label in range(len(totals)):
        owed += exact[:, label] - table[:, label]
        left = int(totals[label] - table[:, label].sum())
        order = np.argsort(np.where(exact[:, label] > 0, -owed, np.inf), kind="stable")
        table[order[:left], label] += 1
        owed[order[:left]] -= 1
    return table


def evenly(count: int, classes: int) -> Counts:
    """`count` images over the classes, the first ones taking the remainder: 8 over 5 is 2, 2, 2, 1, 1."""
    return np.array([count // classes + (label < count % classes) for label in range(classes)], dtype=np.int64)

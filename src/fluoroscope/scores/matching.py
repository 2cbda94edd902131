"""Which reconstruction is which original: the assignment with the best total score (the Hungarian algorithm)."""

from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from fluoroscope.errors import BadInput


@dataclass(frozen=True, eq=False)
class Matching:
    """Pairs of a reconstruction and an original, in the order of the reconstructions; no image is in two pairs."""

    reconstructions: Tensor
    """(pairs,), int64: rows of the score matrix."""
    originals: Tensor
    """(pairs,), int64: columns."""
    scores: Tensor
    """(pairs,), as the matrix has them."""

    def __len__(self) -> int:
        return len(self.scores)


def match(score_matrix: Tensor, higher_is_better: bool) -> Matching:
    """Pair reconstructions (rows) with originals (columns): as many pairs as the smaller side has.

    NaN, the score of a reconstruction that diverged, counts as infinitely bad; an infinitely good score (the PSNR of
    an exact recovery) as it says. One more infinitely good pair, or one fewer bad, outweighs all finite scores. A
    diverged reconstruction is still given an original when there are enough, with its own NaN as the score.
    """
    if score_matrix.ndim != 2:
        raise BadInput(
            f"match needs a (reconstructions, originals) matrix, not shape {tuple(score_matrix.shape)}; "
            "ssim_matrix and mse_matrix give one."
        )
    scores = score_matrix.detach().cpu()
    costs = -scores.double() if higher_is_better else scores.double()
    rows, columns = linear_sum_assignment(_finite(costs).numpy())
    chosen, originals = torch.as_tensor(rows), torch.as_tensor(columns)
    return Matching(chosen, originals, scores[chosen, originals])


def _finite(costs: Tensor) -> Tensor:
    """Infinite costs as ones so large that the finite ones of a whole assignment cannot make up for them."""
    finite = costs[costs.isfinite()]
    low, high = (float(v) for v in finite.aminmax()) if len(finite) else (0.0, 0.0)
    beyond = (high - low or 1.0) * (min(costs.shape) + 1)
    return costs.nan_to_num(nan=high + beyond, posinf=high + beyond, neginf=low - beyond)

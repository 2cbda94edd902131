"""Recovery rate: which of a victim's images an attack gave back (P2; spec section 3.2)."""

import math
from dataclasses import dataclass

from torch import Tensor

from fluoroscope.errors import BadInput
from fluoroscope.scores.intervals import Interval, wilson
from fluoroscope.scores.matching import match
from fluoroscope.scores.similarity import decibels, mse_matrix, ssim


@dataclass(frozen=True, eq=False)
class Recovery:
    """What became of each original. Tensors are (originals,)."""

    reconstruction: Tensor
    """The one that the original was matched with, int64; -1 where there were too few."""
    psnr: Tensor
    """NaN where there was none."""
    ssim: Tensor
    recovered: Tensor
    """Bool."""
    rate: Interval
    """Successes by originals, with Wilson's interval, as if the originals were independent."""


def recovery(reconstructions: Tensor, originals: Tensor, above_psnr: float = 20.0, above_ssim: float = 0.9) -> Recovery:
    """Match (n, channels, height, width) with `originals`, one to one, and count the pairs above both limits of P2.

    Pairs have the highest sum of PSNR: in squared error, one diverged reconstruction would outweigh all the others.
    A second copy of an original recovers nothing, and nor does a reconstruction beyond the number of originals.
    """
    if not len(originals):
        raise BadInput("a recovery rate is a share of the victim's images, and there are none; give at least one.")
    decibel_matrix = decibels(mse_matrix(reconstructions, originals))
    pairs = match(decibel_matrix, higher_is_better=True)
    chosen, true = (rows.to(originals.device) for rows in (pairs.reconstructions, pairs.originals))
    reconstruction = true.new_full((len(originals),), -1)
    reconstruction[true] = chosen
    psnrs, ssims = (decibel_matrix.new_full((len(originals),), math.nan) for _ in range(2))
    psnrs[true] = decibel_matrix[chosen, true]
    ssims[true] = ssim(originals[true], reconstructions[chosen]).to(ssims)
    recovered = (psnrs > above_psnr) & (ssims > above_ssim)
    return Recovery(reconstruction, psnrs, ssims, recovered, wilson(int(recovered.sum()), len(originals)))

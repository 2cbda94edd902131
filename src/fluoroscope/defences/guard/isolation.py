"""Which images a server can read out of a product's gradient without a search.

The gradient of a row of weights is a sum of what was read, weighted by the row's gradients: c1 x1 + c2 x2 + ... A row
in which one image has nearly all of the weight is that image. So is the difference of two rows, where all others have
the same proportion in both and one has not; that is how bins work. Others would need to know the gradients.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

NEAR = 0.1
"""Error of a reading, in units of the squared distance between two images: PSNR 20 or more for images in [0, 1]."""
OWNS = 0.9
"""Of a row's weight: a token that has this share stands alone."""
NEIGHBOURS = 24
"""Other rows that a row is compared with: those most alike, of which bins next to each other are."""
MOST_ROWS = 4096
ALIKE = 0.02
"""How far two proportions may differ and still cancel."""
MANY_ROWS = 1024
MOST_TOKENS, MOST_TOKEN_ROWS = 2048, 512
MOST_PAIRED, MOST_PAIRED_TOKENS = 160, 512
FEWEST_TOKENS, FEWEST_ROWS = 16, 8
ASLEEP, INAUDIBLE = 1e-36, 1e-20
"""Of the largest row: below, a row has no gradient; and the same in units of the rows' own weights."""
MOSTLY = 0.5
"""Of the inverse participation ratio of a row, from which on it is one image's."""
COMMON = 3
"""Images that must cancel in a difference: the proportion of two rows is always right for one."""


@dataclass(frozen=True)
class Reading:
    """What can be read of one product."""

    alone: float
    """Share of the images that a single row gives away."""
    apart: float
    """Share that a row or a difference of two gives away."""
    rows: float
    """Share of the rows (or differences of unlike rows) that give away an image or a token."""


NOTHING = Reading(0.0, 0.0, 0.0)


def read(gradient: Tensor, given: Tensor, generator: torch.Generator | None = None) -> Reading:
    """What (images, units) and what was read, (images, inputs), give away.

    Args:
        gradient: of every image's loss at every unit.
        given: what the units read of every image.
        generator: draws rows where there are too many; what is drawn is the client's secret.
    """
    rows = unlike(gradient.T, generator)
    if len(rows) == 0 or len(given) < 2:
        return NOTHING
    apart = distances(given)
    single = readings(rows, apart)
    pairs = readings(differences(rows), apart)
    alone = single.any(dim=0)
    both = alone | pairs.any(dim=0)
    whole = max(len(rows), 1)
    share = float((single.any(dim=1).sum() + 0.0) / whole)
    return Reading(float(alone.double().mean()), float(both.double().mean()), share)


def unlike(rows: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Rows scaled to one, those of zeros and those that equal another left out: equal rows differ by nothing."""
    rows = rows.double()
    size = rows.abs().amax(dim=1)
    rows = rows[(size > 0) & (size > ASLEEP * size.max()) & torch.isfinite(size)]
    if len(rows) > MOST_ROWS:
        rows = rows[torch.randperm(len(rows), generator=generator)[:MOST_ROWS]]
    if len(rows) == 0:
        return rows
    rows = rows / rows.gather(1, rows.abs().argmax(dim=1, keepdim=True))
    # Equal rows have equal sums, and unlike ones hardly ever: sorting numbers is quicker than sorting rows.
    keys = (rows * 1e4).round() @ torch.linspace(1, 2, rows.shape[1], dtype=torch.double).sqrt()
    order = keys.argsort(stable=True)
    first = torch.ones(len(rows), dtype=torch.bool)
    first[1:] = keys[order].diff().abs() > 1e-6
    return rows[order[first]]


@dataclass(frozen=True)
class Crowd:
    """How the images share rows; hardly differs from draw to draw, and moves before images can be read."""

    concentration: float
    """The inverse participation ratio of a row, (sum c^2) / (sum |c|)^2, on the mean over all rows: 1/n where n images
    share every row alike, 1 where each row has one image. A dead row gives nothing away, and counts as 0."""
    asleep: float
    """Share of the rows that no image wakes."""
    alone: frozenset[int]
    """The rows of which one image has most."""
    rows: int = 0
    """In all; not always a layer's own, since they may be those of a bend behind it."""


def crowd(gradient: Tensor) -> Crowd:
    """Of (images, units)."""
    rows = gradient.T.double().abs()
    largest = rows.amax(dim=1)
    alive = torch.isfinite(largest) & (largest > ASLEEP * largest.max())
    shares = rows[alive] / rows[alive].sum(dim=1, keepdim=True)
    each = torch.zeros(len(rows), dtype=torch.double)
    each[alive] = shares.square().sum(dim=1)
    own = frozenset((each > MOSTLY).nonzero().flatten().tolist())
    return Crowd(float(each.sum()) / max(len(rows), 1), 1 - float(alive.double().mean()), own, len(rows))


def distances(given: Tensor) -> Tensor:
    """Squared distances of every two images, in units of their median."""
    flat = given.double().flatten(1)
    flat = flat - flat.mean(dim=0)
    gram = flat @ flat.T
    squares = gram.diagonal()
    apart = (squares[:, None] + squares[None] - 2 * gram).clamp_min(0)
    off = apart[~torch.eye(len(apart), dtype=torch.bool)]
    return apart / off.median().clamp_min(1e-30)


def readings(rows: Tensor, apart: Tensor) -> Tensor:
    """(rows, images): whether the row, divided by the bias's gradient, is the image.

    A row reads sum_i w_i x_i with weights that sum to 1. Its squared distance to x_j is
    sum_i w_i d_ij - 1/2 sum_ik w_i w_k d_ik, where d are the squared distances of the images.
    """
    if len(rows) == 0:
        return torch.zeros(0, len(apart), dtype=torch.bool)
    rows = rows.double()
    total = rows.sum(dim=1, keepdim=True)
    usable = total.abs() > 1e-9 * rows.abs().sum(dim=1, keepdim=True)
    weights = torch.where(usable, rows / torch.where(usable, total, torch.ones_like(total)), torch.zeros_like(rows))
    to = weights @ apart
    error = to - 0.5 * (to * weights).sum(dim=1, keepdim=True)
    near = apart.masked_fill(torch.eye(len(apart), dtype=torch.bool), torch.inf).amin(dim=1)
    # An image with a twin is read only if the reading is nearer to it than to its twin.
    return (error < torch.minimum(torch.full_like(near, NEAR), near.clamp_min(1e-6) / 2)) & usable


def differences(rows: Tensor, neighbours: int = NEIGHBOURS) -> Tensor:
    """Differences of two rows after which at least COMMON images have cancelled, one per pair of rows much alike."""
    if len(rows) < 2:
        return rows[:0]
    rows = rows.float()
    unit = F.normalize(rows, dim=1)
    alike = (unit @ unit.T).abs().fill_diagonal_(-1)
    count = min(neighbours if len(rows) <= MANY_ROWS else neighbours // 4, len(rows) - 1)
    beside = torch.zeros_like(alike, dtype=torch.bool).scatter_(1, alike.topk(count, dim=1).indices, True)
    one, other = (beside | beside.T).triu(1).nonzero(as_tuple=True)  # every pair once
    # The proportion is that of the image that weighs most in both; where others share it, they cancel.
    fires = (rows.abs() > 1e-6).to(torch.uint8)
    enough = (fires[one] & fires[other]).sum(dim=1) >= 2
    one, other = one[enough], other[enough]
    first, second = rows[one], rows[other]
    both = fires[one].bool() & fires[other].bool()
    proportion = torch.where(both, first / torch.where(both, second, torch.ones_like(second)), torch.nan)
    usual = _nanmedian(proportion)
    cancels = ((proportion - usual).abs() < ALIKE * usual.abs()) & both
    kept = cancels.sum(dim=1) >= both.sum(dim=1).clamp(2, COMMON)
    left = (first - usual * second)[kept]
    left = torch.where(cancels[kept], torch.zeros_like(left), left)
    return left[left.abs().amax(dim=1) > 1e-4]


def _nanmedian(values: Tensor) -> Tensor:
    """(rows, 1): as `Tensor.nanmedian`, ten times as fast: numpy sorts short rows by vector instructions, NaN last."""
    ordered = torch.from_numpy(np.sort(values.numpy(), axis=1))
    count = (~values.isnan()).sum(dim=1, keepdim=True)
    return ordered.gather(1, (count - 1).clamp_min(0) // 2)


def tokens(gradient: Tensor, generator: torch.Generator | None = None) -> float:
    """The share of rows of (tokens, units), or of differences of rows much alike, that one token has to itself."""
    rows = gradient[: min(len(gradient), MOST_TOKENS)].T.float()
    rows = rows[torch.randperm(len(rows), generator=generator)[:MOST_TOKEN_ROWS]]
    sizes = rows.abs().amax(dim=1)
    rows = rows[(sizes > 0) & (sizes > ASLEEP * sizes.max())]
    if len(rows) < FEWEST_ROWS or rows.shape[1] < FEWEST_TOKENS:
        return 0.0
    alone = single(rows)
    some = rows[:MOST_PAIRED, :MOST_PAIRED_TOKENS]
    some = some[some.abs().amax(dim=1) > 0]
    beside = differences(some / some.abs().amax(dim=1, keepdim=True), neighbours=2)
    pairs = int(single(beside).sum()) / max(2 * len(some), 1) if len(beside) else 0.0
    return max(float(alone.double().mean()), pairs)


def own_row(gradient: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """What one image puts into its largest row of (rows, inputs), and how much of its own into every row.

    The loss turns signs round and scales: divided by the gradient of its bias, a row is what was read. Without one it
    has size one, and pictures are bright.
    """
    sizes = gradient.norm(dim=1)
    largest = sizes.argmax()
    main = F.normalize(gradient[largest], dim=0)
    main = torch.copysign(torch.ones(()), main.sum()) * main
    if bias is not None and float(bias[largest].abs()) > 1e-6 * float(sizes[largest]):
        main = gradient[largest] / bias[largest]
    return main, torch.copysign(sizes, gradient @ main) / main.norm().clamp_min(1e-30)


def awake(gradient: Tensor, weight: Tensor) -> Tensor:
    """Without the rows that say nothing: a row may whisper, if its weights do, and training moves it all the same.

    Args:
        gradient: (images, units).
        weight: (units, inputs), by whose size a row is heard.
    """
    if gradient.shape[1] != len(weight):
        return gradient
    loud = gradient.abs().amax(dim=0).double() / weight.double().norm(dim=1).clamp_min(1e-300)
    return torch.where(loud > INAUDIBLE * loud.max(), gradient, torch.zeros_like(gradient))


def single(rows: Tensor) -> Tensor:
    """Rows in which one has nearly all of the weight."""
    sizes = rows.abs()
    return sizes.amax(dim=1) > OWNS * sizes.sum(dim=1).clamp_min(1e-30)

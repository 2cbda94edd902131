"""Bins that hold several images are opened one image at a time, as an invertible Bloom lookup table is."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.attacks.crafted.bin_sums import BinSums, bin_sums
from fluoroscope.attacks.crafted.craft import Crafted
from fluoroscope.attacks.crafted.recovered import Recovered
from fluoroscope.attacks.crafted.table import Table
from fluoroscope.types import State

SAME = 0.005
"""Two features that agree so well hold the same: one image, or two that share both bins."""
THERE = 0.5
"""The third feature then need only say that the image is there rather than not."""
ABSENT = 0.6
"""A feature that is further off than this says that the image is not there."""
CLOSED = 0.02
"""Of an image's coefficient: a bin with no more than this left over holds no other image."""


@dataclass(frozen=True)
class Peeling:
    """An image falls into one bin of each feature, with one coefficient. Alone in one of them, it is known in all.

    A candidate is what a bin would hold if it held one image. It is believed when every other feature has it too, in
    the bin where it must lie and with the same coefficient; a mixture of two images lies in no bin of the others. What
    is believed is taken out, and more bins hold one image. At the end, least squares over all bins that are explained.
    """

    tolerances: tuple[float, ...] = (0.02, 0.1, 0.25, 0.4)
    """Of the coefficients' agreement, from strict to lenient: a lenient one is tried when all stricter ones fail."""

    def __call__(self, crafted: Crafted, update: State) -> Recovered:
        sums = bin_sums(crafted, update)
        peel = _Peel(Table(sums, crafted))
        while any(peel.believed(tolerance) for tolerance in self.tolerances) or peel.likeliest():
            pass
        return peel.solved(sums, crafted.auxiliary.shape[1:])


class _Peel:
    """The images taken out of a table so far."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._members = torch.empty(0, table.count, dtype=torch.int64)
        self._values = torch.empty(0, dtype=torch.float64)

    def believed(self, tolerance: float) -> bool:
        """Take out every candidate that is believed at this tolerance, the surest first; whether there was any."""
        rows = self._table.candidates()
        if not len(rows):
            return False
        members, error, nearest = self._table.agreement(rows)
        error = torch.where((nearest < SAME) & (error < THERE), nearest, error)
        size = self._table.left[rows].abs()
        least: dict[tuple[int, ...], float] = {}
        for bins, value in zip(map(tuple, members.tolist()), size.tolist(), strict=True):
            least[bins] = min(value, least.get(bins, value))
        # Two images that share two bins: their mixture lies where one of them does, and weighs more.
        mixed = size > torch.tensor([least[tuple(bins)] for bins in members.tolist()]) * (1 + 4 * SAME)
        error = error.where(~mixed, torch.inf)
        touched: set[int] = set()
        chosen = []
        order = error.argsort()
        for i in order[error[order] < tolerance].tolist():
            own = members[i].tolist()
            if not touched.intersection(own):  # of what is taken, all evidence is still there
                touched.update(own)
                chosen.append(i)
        self._take(rows[chosen], members[chosen])
        return bool(chosen)

    def likeliest(self) -> bool:
        """Where nothing is believed any more: the candidate that is least off, if it is there at all."""
        rows = self._table.candidates()
        if not len(rows):
            return False
        members, error, _ = self._table.agreement(rows)
        best = error.argmin()[None]
        if error[best] > ABSENT:
            return False
        self._take(rows[best], members[best])
        return True

    def _take(self, rows: Tensor, members: Tensor) -> None:
        self._values = torch.cat([self._values, self._table.left[rows]])
        self._members = torch.cat([self._members, members])
        self._table.take(rows, members)

    def solved(self, sums: BinSums, shape: torch.Size) -> Recovered:
        """Least squares over the bins that the images explain, pixels that a feature cannot show left to the others."""
        members, table = self._members, self._table
        if not len(members):
            return Recovered(torch.empty(0, *shape), torch.empty(0))
        values = self._values
        closed = table.left.abs()[members] < (CLOSED * values.abs()[:, None]).clamp_min(table.empty)
        closed |= ~closed.any(1, keepdim=True)  # an image without a closed bin is read from all of them
        if table.readable:
            solved = _least_squares(members, values, closed, sums.pixels)
            return Recovered(solved.view(-1, *shape).float(), self._confidence(sums, values, solved))
        supports = torch.stack([feature.support for feature in table.bins.features])
        rest = ~supports.any(0)
        solved = torch.zeros(len(members), sums.pixels.shape[1], dtype=torch.float64)
        solved[:, rest] = _least_squares(members, values, closed, sums.pixels[:, rest])
        likely = _from_neighbours(solved.view(-1, *shape), rest.view(shape)).flatten(1)
        for feature, support in enumerate(supports):
            shown = closed.clone()
            shown[:, feature] = False
            solved[:, support] = _least_squares(members, values, shown, sums.pixels[:, support], likely[:, support])
        return Recovered(solved.view(-1, *shape).float(), self._confidence(sums, values, solved))

    def _confidence(self, sums: BinSums, values: Tensor, solved: Tensor) -> Tensor:
        """How much of its bin, in size, an image and its bin's other images leave unexplained: the features' median."""
        probes = self._table.probes
        explained = torch.zeros(len(sums.pixels), len(probes), dtype=torch.float64)
        for feature in range(self._table.count):
            explained.index_add_(0, self._members[:, feature], values[:, None] * solved[:, probes])
        off = (sums.pixels[:, probes] - explained).norm(dim=1)
        own = (values[:, None] * solved[:, probes]).norm(dim=1)
        share: Tensor = (off[self._members] / own[:, None]).median(1).values
        return (1 - share).clamp(0, 1).float()


def _from_neighbours(images: Tensor, known: Tensor) -> Tensor:
    """Each pixel as the mean of the known pixels around it."""
    count = torch.nn.functional.avg_pool2d(known.double()[None], 3, 1, 1)
    around: Tensor = torch.nn.functional.avg_pool2d(images * known, 3, 1, 1) / count.clamp_min(1e-9)
    return around


def _least_squares(
    members: Tensor, values: Tensor, use: Tensor, pixels: Tensor, likely: Tensor | None = None
) -> Tensor:
    """x minimising the squared misfit of sum_i c_i x_i to every used bin; what they leave open is as `likely` says.

    Two features alone leave images open that share their bins in a circle.
    """
    images = len(members)
    design = torch.zeros(len(pixels), images, dtype=torch.float64)
    used = torch.zeros(len(pixels), dtype=torch.float64)
    used[members[use]] = 1
    right = torch.zeros(images, pixels.shape[1], dtype=torch.float64)
    for held in members.T:  # design.T @ pixels, of which few entries are not 0
        weight = values * used[held]
        design[held, torch.arange(images)] = weight
        right += weight[:, None] * pixels[held]
    normal = design.T @ design
    ridge = 1e-9 * float(values.square().mean()) if likely is not None else 0.0
    normal += (ridge + 1e-15 * float(normal.diagonal().mean())) * torch.eye(images, dtype=torch.float64)
    found: Tensor = torch.linalg.solve(normal, right if likely is None else right + ridge * likely)
    return found

"""Bins that hold several images are opened one image at a time, as an invertible Bloom lookup table is."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from fluoroscope.attacks.imprint.bin_sums import BinSums, bin_sums
from fluoroscope.attacks.imprint.bin_table import BinTable
from fluoroscope.attacks.imprint.craft import Crafted
from fluoroscope.attacks.imprint.recovered import Recovered
from fluoroscope.attacks.imprint.solve import solve_images, unexplained
from fluoroscope.types import State

SAME = 0.005
"""Two features that agree so well hold the same: one image, or two that share both bins."""
THERE = 0.5
"""The third feature then need only say that the image is there rather than not."""
ABSENT = 0.6
"""A feature that is further off than this says that the image is not there."""
CLOSED = 0.02
"""Of an image's coefficient: a bin with no more than this left over holds no other image."""
GUESSES = 200
"""The likeliest candidates that are taken though nothing is believed: beyond, guesses rest on guesses."""


@dataclass(frozen=True)
class Peeling:
    """An image falls into one bin of each feature, with one coefficient. Alone in one of them, it is known in all.

    A candidate is what a bin would hold if it held one image. It is believed when every other feature has it too, in
    the bin where it must lie and with the same coefficient; a mixture of two images lies in no bin of the others. What
    is believed is taken out, and more bins hold one image. A mistake shows: what was taken from the wrong bin is left
    there with the opposite sign, and missing where it should be. At the end, least squares over the explained bins.
    """

    tolerances: tuple[float, ...] = (0.02, 0.1, 0.25, 0.4)
    """Of the coefficients' agreement, from strict to lenient: a lenient one is tried when all stricter ones fail."""

    def __call__(self, crafted: Crafted, update: State) -> Recovered:
        sums = bin_sums(crafted, update)
        peel = _Peel(BinTable(sums, crafted))
        steps: list[Callable[[], bool]] = [partial(peel.believed, tolerance) for tolerance in self.tolerances]
        steps += [peel.mended, peel.likeliest]
        while peel.images < crafted.images and any(step() for step in steps):
            pass
        return peel.solved(sums, crafted.auxiliary.shape[1:])


class _Peel:
    """The images taken out of a table so far."""

    def __init__(self, table: BinTable) -> None:
        self._table = table
        self._members = torch.empty(0, table.count, dtype=torch.int64)
        self._taken = torch.empty(0, table.columns, dtype=torch.float64)
        self._guesses = 0

    def believed(self, tolerance: float) -> bool:
        """Take out every candidate that is believed at this tolerance, the surest first; whether there was any."""
        rows = self._table.candidates()
        if not len(rows):
            return False
        members, error, nearest = self._table.agreement(rows)
        error = torch.where((nearest < SAME) & (error < THERE), nearest, error)
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
        """Where nothing is believed any more: the candidate that is least off, if it is there at all.

        Else one that two features hold, though a third, crowded one, does not show it.
        """
        rows = self._table.candidates()
        if not len(rows) or self._guesses >= GUESSES:
            return False
        self._guesses += 1
        members, error, nearest = self._table.agreement(rows)
        if error.min() > ABSENT:
            error = error.where(nearest < SAME, torch.inf)
        best = error.argmin()[None]
        if error[best].isinf():
            return False
        self._take(rows[best], members[best])
        return True

    def mended(self) -> bool:
        """Undo one mistake: an image taken from a bin where it is not, or two of one bin taken for one image.

        Then a bin is left with what other bins of its feature lack: one of them, or two. Whether there was any.
        """
        for bin_, others in self._table.cancelling():
            for image in (self._members[:, bin_ // self._table.bins.width] == bin_).nonzero()[:, 0].tolist():
                parts = self._table.rows(others)
                rest = self._taken[image] - parts.sum(0)
                gone = abs(float(rest[0])) < 2 * SAME * abs(float(self._taken[image, 0]))
                if gone or self._table.possible(rest[None])[0]:
                    self._replace(image, bin_, others, parts, None if gone else rest)
                    return True
        return False

    def _replace(self, image: int, bin_: int, others: list[int], parts: Tensor, rest: Tensor | None) -> None:
        """In the place of an image: what was in the other bins, and what that leaves of it."""
        feature = bin_ // self._table.bins.width
        members = self._members[image].repeat(len(others), 1)
        members[:, feature] = torch.tensor(others)
        self._table.move(others, bin_)
        if rest is None:
            kept = torch.arange(len(self._members)) != image
            self._members, self._taken = self._members[kept], self._taken[kept]
        else:
            self._taken[image] = rest
        self._members, self._taken = torch.cat([self._members, members]), torch.cat([self._taken, parts])

    @property
    def images(self) -> int:
        return len(self._members)

    def _take(self, rows: Tensor, members: Tensor) -> None:
        self._members = torch.cat([self._members, members])
        self._taken = torch.cat([self._taken, self._table.take(rows, members)])

    def solved(self, sums: BinSums, shape: torch.Size) -> Recovered:
        """Least squares over the bins that the images explain; confidence is how well they explain them."""
        members, table = self._members, self._table
        if not len(members):
            return Recovered(torch.empty(0, *shape), torch.empty(0))
        values = self._taken[:, 0]
        closed = table.left.abs()[members] < (CLOSED * values.abs()[:, None]).clamp_min(table.empty)
        solved, alike = solve_images(members, values, closed, sums, table.bins, shape)
        confidence = (1 - unexplained(members, values, solved, sums, table.probes)).minimum(alike).clamp(0, 1)
        return Recovered(solved.view(-1, *shape).float(), confidence.float())

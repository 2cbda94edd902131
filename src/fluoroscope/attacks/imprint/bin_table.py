"""What is left in every bin while images are taken out, on as many pixels as it takes to know an image again."""

from collections.abc import Iterator
from itertools import combinations

import torch
from torch import Tensor

from fluoroscope.attacks.imprint.adjacent import EMPTY, in_range
from fluoroscope.attacks.imprint.bin_sums import BinSums
from fluoroscope.attacks.imprint.bins import BELOW, Bins
from fluoroscope.attacks.imprint.craft import Crafted
from fluoroscope.attacks.imprint.features import Feature

PROBES = 512
"""Pixels on which candidates are compared."""
SHRINK = 0.03
"""Of the auxiliary covariance towards its mean variance."""
WIDEST = 24
"""Bins that are looked at for one candidate and feature."""
CROWDED = 40
"""Bins of a feature with something left: beyond, some would cancel by chance, and to look would take long."""
CANCELLED = 0.003
"""Of the larger part: what is left where two cancel."""
UNEVEN = 0.02
"""How much the brightness of one lattice may differ from that of another."""


class BinTable:
    """A row a bin. Everything in it is a sum over the bin's images, so taking an image out is a subtraction."""

    def __init__(self, sums: BinSums, crafted: Crafted) -> None:
        bins, count = crafted.bins, len(crafted.bins.features)
        self.bins, self.count, self.readable = bins, count, sums.readable
        self.probes = _probes(bins, sums.pixels.shape[1])
        auxiliary = crafted.auxiliary.flatten(1).double()[:, self.probes]
        self._mean = auxiliary.mean(0)
        self._filter = _inverse_covariance(auxiliary)
        above = torch.stack([_weighed(sums.pixels, feature.numerator) for feature in bins.features], 1)
        below = torch.stack(
            [
                sums.coefficients if feature.denominator is None else _weighed(sums.pixels, feature.denominator)
                for feature in bins.features
            ],
            1,
        )
        nothing = torch.zeros_like(above)
        seen = sums.pixels[:, self.probes].double()
        variance = torch.full_like(sums.coefficients, sums.noise**2)
        self._held = torch.cat(
            [sums.coefficients[:, None], seen, above, below, nothing, nothing, nothing, variance[:, None]], 1
        )
        # Views of one tensor: numerators and denominators of the features; and what was taken out of them on a guess,
        # since an image's own pixels could not be read: how much, where on the feature's scale, and how surely.
        parts = self._split(self._held)
        self._coefficients, self._pixels, self._above, self._below = parts[0][:, 0], *parts[1:4]
        self._guessed, self._guessed_at, self._gaps, self._variance = *parts[4:7], parts[7][:, 0]
        self._drift = _drift(sums, crafted)
        self.empty = max(EMPTY * float(sums.coefficients.abs().max()), 6 * sums.noise)

    @property
    def left(self) -> Tensor:
        """(bins,): the coefficients that no image explains."""
        return self._coefficients

    def candidates(self) -> Tensor:
        """Bins that hold something, and that as one image would have its values in range; int64."""
        full = self._full()
        return full[self.possible(self._held[full])] if len(full) else full

    def agreement(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of the candidates in these rows: their bins (n, features), and how far the other features disagree.

        In each other feature, a matched filter, whitened by the auxiliary covariance, reads the candidate's coefficient
        from the bin where it must lie. The second and third results are the relative gaps of the feature that is
        furthest off and of the one that is nearest.
        """
        width, own = self.bins.width, rows // self.bins.width
        value = self._coefficients[rows]
        centred = self._pixels[rows] / value[:, None] - self._mean
        matched = centred @ self._filter
        energy = (matched * centred).sum(1)
        members = torch.empty(len(rows), self.count, dtype=torch.int64)
        furthest = torch.zeros(len(rows), dtype=torch.float64)
        nearest = torch.full_like(furthest, torch.inf)
        for feature in range(self.count):
            low, high = self._place(rows, feature)
            mine = own == feature
            best = torch.full_like(nearest, torch.inf)
            where = rows.clone()
            for shift in range(min(int((high - low).max()), WIDEST) + 1):
                there = (feature * width + torch.minimum(low + shift, high)).where(~mine, rows)
                held = self._pixels[there] - self._coefficients[there, None] * self._mean
                off = ((matched * held).sum(1) / energy / value - 1).abs()
                better = off < best
                best, where = torch.where(better, off, best), torch.where(better, there, where)
            members[:, feature] = where
            # Of its own bin a candidate is the whole: only where it lies can be wrong.
            astray = ((low > rows % width) | (high < rows % width)) & self.readable
            furthest = torch.maximum(furthest, torch.where(mine, torch.where(astray, 0.05, 0.0), best))
            nearest = torch.minimum(nearest, torch.where(mine, torch.inf, best))
        return members, furthest, nearest

    def _full(self) -> Tensor:
        """Bins with more in them than the noise of all that was taken out."""
        noise = self._variance.abs().sqrt()
        return (self._coefficients.abs() > (6 * noise).clamp_min(self.empty)).nonzero()[:, 0]

    def cancelling(self) -> Iterator[tuple[int, list[int]]]:
        """A bin with one or two others of its feature such that what is left in them adds up to nothing."""
        full = self._full()
        sound = set(full[self.possible(self._held[full])].tolist()) if len(full) else set()
        for feature in range(self.count):
            here = [i for i in full.tolist() if i // self.bins.width == feature]
            if len(here) > CROWDED:
                continue
            for bin_ in here:
                others = [i for i in here if i != bin_ and i in sound]
                for some in (*([i] for i in others), *map(list, combinations(others, 2))):
                    if self._cancels([bin_, *some]):
                        yield bin_, some

    def _cancels(self, rows: list[int]) -> bool:
        coefficients = self._coefficients[rows]
        if abs(float(coefficients.sum())) > 0.1 * float(coefficients.abs().max()):
            return False
        allowed = max(CANCELLED * float(coefficients.abs().max()), 6 * float(self._noise(torch.tensor(rows)).norm()))
        if abs(float(coefficients.sum())) > allowed:
            return False
        pixels = self._pixels[rows]
        return float(pixels.sum(0).abs().mean()) < max(allowed, CANCELLED * float(pixels.abs().mean()))

    def possible(self, rows: Tensor) -> Tensor:
        """Whether each of these, as one image, would have its values in range."""
        size = rows[:, 0]
        noise = rows[:, -1].abs().sqrt() / size.abs()
        return in_range(rows[:, 1 : 1 + len(self.probes)] / size[:, None], noise) > 0

    def rows(self, bins: list[int]) -> Tensor:
        return self._held[bins].clone()

    def move(self, bins: list[int], to: int) -> None:
        """What is in these bins belongs into another."""
        shown = slice(0, 1 + len(self.probes) + 2 * self.count)
        self._held[to, shown] += self._held[bins, shown].sum(0)
        self._held[bins, shown] = 0

    @property
    def columns(self) -> int:
        return self._held.shape[1]

    def take(self, rows: Tensor, members: Tensor) -> Tensor:
        """Take the candidates of these rows out of their bins (n, features); what was taken, a row an image."""
        taken = self._held[rows].clone()
        for part in self._split(taken)[4:7]:
            part.zero_()
        taken[:, -1] *= -1  # what is taken out brings the noise of where it was read
        if not self.readable:
            self._guess_own(taken, rows)
        for feature in range(self.count):
            self._held.index_add_(0, members[:, feature], taken, alpha=-1)
        return taken

    def _guess_own(self, taken: Tensor, rows: Tensor) -> None:
        """Its own pixels were rounded away: the bin says where it lies on its feature, another lattice how bright."""
        width, each, own = self.bins.width, torch.arange(len(rows)), rows // self.bins.width
        _, _, above, below, guessed, guessed_at, gaps, _ = self._split(taken)
        below[each, own] = below[each, (own + 1) % self.count]
        place = (rows % width).clamp_min(BELOW)
        thresholds = self.bins.thresholds[own]
        at, after = thresholds[each, place], thresholds[each, (place + 1).clamp_max(width - 1)]
        above[each, own] = below[each, own] * at
        # Negative, as they are subtracted: doubts add up.
        guessed[each, own] = -below[each, own].abs()
        guessed_at[each, own] = guessed[each, own] * at
        gaps[each, own] = guessed[each, own] * (after - at)

    def _split(self, rows: Tensor) -> tuple[Tensor, ...]:
        return torch.split(rows, [1, len(self.probes), *[self.count] * 5, 1], 1)

    def _noise(self, rows: Tensor) -> Tensor:
        return self._variance[rows].abs().sqrt()

    def _place(self, rows: Tensor, feature: int) -> tuple[Tensor, Tensor]:
        """The lowest and the highest bin in which the candidates of these rows can lie."""
        below = self._below[rows, feature]
        measured = self._above[rows, feature] / below
        chosen = self.bins.features[feature]
        length = chosen.numerator.double().norm() ** 2
        if chosen.denominator is not None:
            length = length + measured.square() * chosen.denominator.double().norm() ** 2
        apart = (self._guessed_at[rows, feature] - self._guessed[rows, feature] * measured).abs()
        slack = (4 * self._noise(rows) * length.sqrt() + self._gaps[rows, feature] + UNEVEN * apart) / below.abs()
        slack = slack + 1e-6 * measured.abs() + self._drift[feature]  # the client counts in float32
        edges = [self.bins.locate(feature, measured + sign * slack) for sign in (-1, 1)]
        low, high = (edge.clamp(0, self.bins.width - 1) for edge in edges)
        return low, high


def _weighed(pixels: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of each row, in float64."""
    some = weights.nonzero()[:, 0]
    return pixels[:, some].double() @ weights[some].double()


def _probes(bins: Bins, pixels: int) -> Tensor:
    """Pixels that no feature has weights on, evenly; of all pixels where there are none."""
    free = (~torch.stack([feature.support for feature in bins.features]).any(0)).nonzero()[:, 0]
    free = free if len(free) else torch.arange(pixels)
    return free[torch.linspace(0, len(free) - 1, min(PROBES, len(free))).long()]


def _inverse_covariance(images: Tensor) -> Tensor:
    covariance = torch.cov(images.T)
    covariance = (1 - SHRINK) * covariance + SHRINK * covariance.diagonal().mean() * torch.eye(len(covariance)).double()
    inverse: Tensor = torch.linalg.inv(covariance)
    return inverse


def _drift(sums: BinSums, crafted: Crafted) -> list[float]:
    """How far the thresholds of each feature moved while the victim trained, for an image like the mean."""
    features, width = crafted.bins.features, crafted.bins.width
    if sums.readable:  # read from one step: nothing had moved
        return [0.0] * len(features)
    mean = crafted.auxiliary.mean(0).flatten().double()
    pushes = _weighed(sums.pixels, mean).view(len(features), width).flip(1).cumsum(1).abs().amax(1).tolist()
    return [push / _brightness(feature, mean) for push, feature in zip(pushes, features, strict=True)]


def _brightness(feature: Feature, image: Tensor) -> float:
    return 1.0 if feature.denominator is None else float(feature.denominator.double() @ image)

"""What is left in every bin while images are taken out, by triples of bins that were found to belong together."""

import torch
from torch import Tensor

from fluoroscope.attacks.imprint.adjacent import in_range
from fluoroscope.attacks.imprint.bin_sums import BinSums
from fluoroscope.attacks.imprint.bins import BELOW
from fluoroscope.attacks.imprint.craft import Crafted
from fluoroscope.attacks.imprint.features import Feature

PROBES = 2048
"""Pixels that are looked at, at least; and four times the images."""
QUIET = 3.0
"""Times the noise: a bin with no more left than this is empty."""
ASTRAY = 5.0
"""Times the noise: so far beyond its bin's edge an image may seem to lie."""
WORK = 2e9
"""Of solving for triples together: their number cubed, summed. A decoder that gets nowhere stops in seconds."""
GUESSES = 48
"""Images that are taken out on a guess, at most: beyond, guesses rest on guesses."""
DETERMINED = 1e-6
"""Of an image, squared: what no other combination of triples can take from it."""
SLACK = 1e-3
"""Of all bins' width: an image that was solved for may lie so far beyond its bin's edge."""
LOUDEST = 100.0
"""Times the noise of a bin, squared: images that are only known by so much are left alone."""


class Residue:
    """A row per bin: coefficient, pixels less the mean image, each feature's sums; and how often noise went in."""

    def __init__(self, sums: BinSums, crafted: Crafted) -> None:
        bins = crafted.bins
        self._bins = bins
        free = ~torch.stack([feature.support for feature in bins.features]).any(0)
        # Beside large weights, small updates are rounded away.
        shown = torch.arange(len(free)) if sums.readable else free.nonzero()[:, 0]
        count = min(len(shown), max(PROBES, 4 * crafted.images))
        self.probes = shown[torch.linspace(0, len(shown) - 1, count).long()]
        self._mean = crafted.auxiliary.mean(0).flatten()[self.probes].double()
        coefficients = sums.coefficients[:, None]
        # Less the mean image, so that rounding is small beside what images differ by.
        pixels = sums.pixels[:, self.probes].double() - coefficients * self._mean
        self._features = [
            feature if sums.readable else _by_neighbours(feature, free, crafted.auxiliary.shape[1:])
            for feature in bins.features
        ]
        # Neighbours are not the pixels themselves: how far off they are, the auxiliary images show.
        pairs = zip(self._features, bins.features, strict=True)
        self._off = [
            4 * float((seen(crafted.auxiliary) - own(crafted.auxiliary)).square().mean().sqrt()) for seen, own in pairs
        ]
        above = [_weighed(sums.pixels, feature.numerator) for feature in self._features]
        below = [
            sums.coefficients if feature.denominator is None else _weighed(sums.pixels, feature.denominator)
            for feature in self._features
        ]
        self._held = torch.cat([coefficients, pixels, torch.stack(above + below, 1), torch.ones_like(coefficients)], 1)
        self._noise, self._guesses, self._work = 0.0, 0, 0
        self.members = torch.empty(0, 3, dtype=torch.int64)
        self._taken = torch.empty(0, self._held.shape[1], dtype=torch.float64)
        self.guessed = torch.empty(0, dtype=torch.bool)

    @property
    def images(self) -> int:
        """Taken out so far."""
        return len(self.members)

    @property
    def coefficients(self) -> Tensor:
        """(images,)."""
        return self._taken[:, 0]

    @property
    def evidence(self) -> Tensor:
        """(bins, 1 + probes): what spans the space of the images that are left."""
        return self._held[:, : 1 + len(self.probes)]

    @property
    def empty(self) -> Tensor:
        """(bins,), bool: no more is left than noise."""
        return self._size(self.evidence) < self._quiet(self._held[:, -1])

    def hear(self, noise: float) -> None:
        """The noise is at least this."""
        self._noise = max(self._noise, noise)

    def open(self, triples: Tensor) -> bool:
        """Take out every image that the triples (n, 3) leave no doubt about; whether there was any."""
        before = self.images
        while True:
            triples = triples[~self.empty[triples].any(1)]  # an image leaves something in each of its bins
            if not len(triples):
                break
            if not (self._together(triples) or self._alone(triples) or self._seen(triples)):
                break
        return self.images > before

    def _alone(self, triples: Tensor) -> bool:
        """Images that are the only ones in a bin that any triple puts there."""
        rows, which = triples.flatten(), torch.arange(len(triples)).repeat_interleave(3)
        single = torch.bincount(rows, minlength=len(self._held))[rows] == 1
        rows, members = rows[single], triples[which[single]]
        good = self._astray(self._held[rows], members) <= 1
        rows, members = rows[good], members[good]
        touched: set[int] = set()
        chosen = []
        for i in self._held[rows, -1].argsort(stable=True).tolist():  # the clearest first
            own = members[i].tolist()
            if not touched.intersection(own):  # of what is taken, all evidence is still there
                touched.update(own)
                chosen.append(i)
        self._take(self._held[rows[chosen]], members[chosen], guessed=False)
        return bool(chosen)

    def _seen(self, triples: Tensor) -> bool:
        """Where several triples share every bin: the image that lies best where one of them says; maybe a mixture."""
        if self._guesses >= GUESSES:
            return False
        self._guesses += 1
        rows, members = triples.flatten(), triples.repeat_interleave(3, 0)
        astray = self._astray(self._held[rows], members)
        alike = torch.zeros(len(rows), dtype=torch.bool)
        for held in members.T:  # two bins that hold the same hold one image, or two that share both
            apart = self._size(self.evidence[rows] - self.evidence[held])
            alike |= (held != rows) & (apart < self._quiet(self._held[rows, -1] + self._held[held, -1]))
        astray = torch.where(astray <= 1, astray + (~alike).double(), torch.inf)
        best = int(astray.argmin())
        if astray[best].isinf():
            return False
        self._take(self._held[rows[best]][None], members[best][None], guessed=not bool(alike[best]))
        return True

    def _together(self, triples: Tensor) -> bool:
        """Least squares over all triples: images that no combination of the others could replace."""
        if self._work + len(triples) ** 3 > WORK:
            return False
        self._work += len(triples) ** 3
        rows, index = torch.unique(triples, return_inverse=True)
        design = torch.zeros(len(rows), len(triples), dtype=torch.float64)
        design[index, torch.arange(len(triples))[:, None]] = 1
        values, vectors = torch.linalg.eigh(design.T @ design)
        known = values > 1e-9
        inverse = (vectors[:, known] / values[known]) @ (vectors[:, known].T @ design.T)
        determined = vectors[:, ~known].square().sum(1) < DETERMINED
        solved = inverse @ self._held[rows]
        solved[:, -1] = (inverse.square() @ self._held[rows, -1:])[:, 0]
        rest = self._held[rows] - design @ solved
        fitted = self._size(rest[:, : 1 + len(self.probes)]) < 2 * self._quiet(self._held[rows, -1])
        good = determined & fitted[index].all(1) & (solved[:, -1] < LOUDEST)
        good &= self._astray(solved, triples) <= 1
        self._take(solved[good], triples[good], guessed=False)
        return bool(good.any())

    def _take(self, images: Tensor, members: Tensor, guessed: bool) -> None:
        taken = images.clone()
        self.members = torch.cat([self.members, members])
        self.guessed = torch.cat([self.guessed, torch.full((len(members),), guessed)])
        self._taken = torch.cat([self._taken, taken])
        taken[:, -1] *= -1  # what is taken out brings the noise of where it was read
        for held in members.T:
            self._held.index_add_(0, held, taken, alpha=-1)

    def _astray(self, images: Tensor, members: Tensor) -> Tensor:
        """How far from its own bins each row lies as one image, 1 being the most it may; inf where it is no image."""
        size, columns = images[:, 0].abs(), 1 + len(self.probes)
        noise = self._noise * images[:, -1].sqrt()
        pixels = images[:, 1:columns] / images[:, :1] + self._mean
        could = (in_range(pixels, noise / size) > 0) & (self._size(images[:, :columns]) > self._quiet(images[:, -1]))
        sums, count = images[:, columns:], len(self._features)
        worst = torch.zeros_like(size)
        for feature, (chosen, thresholds) in enumerate(zip(self._features, self._bins.thresholds, strict=True)):
            below = sums[:, count + feature]
            measured = sums[:, feature] / below
            weights = 1.0 if chosen.denominator is None else float(chosen.denominator.double().norm() ** 2)
            length = (float(chosen.numerator.double().norm() ** 2) + weights * measured.square()).sqrt()
            slack = ASTRAY * noise * length / below.abs() + self._off[feature]
            slack = slack + 1e-6 * thresholds.abs().max()  # clients count in float32
            place = members[:, feature] - feature * self._bins.width
            beyond = torch.cat([thresholds, thresholds.new_tensor([torch.inf])])[place + 1]
            outside = torch.maximum(thresholds[place] - measured, measured - beyond).clamp_min(0)
            worst = torch.maximum(worst, outside / slack)
        return torch.where(could, worst, torch.full_like(worst, torch.inf))

    def in_place(self, images: Tensor) -> Tensor:
        """(n,), bool: whether the taken images, as they were solved for in the end (n, pixels), lie in their bins."""
        good = torch.ones(len(images), dtype=torch.bool)
        for feature, (chosen, thresholds) in enumerate(zip(self._features, self._bins.thresholds, strict=True)):
            measured = chosen(images)
            place = self.members[:, feature] - feature * self._bins.width
            ends = torch.cat([thresholds, thresholds.new_tensor([torch.inf])])
            slack = self._off[feature] + SLACK * (ends[-2] - ends[BELOW])
            good &= (measured > ends[place] - slack) & (measured < ends[place + 1] + slack)
        return good

    def _quiet(self, added: Tensor) -> Tensor:
        quiet: Tensor = QUIET * self._noise * ((1 + len(self.probes)) * added.abs()).sqrt()
        return quiet

    @staticmethod
    def _size(rows: Tensor) -> Tensor:
        size: Tensor = rows.norm(dim=1)
        return size


def _weighed(pixels: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of each row, in float64."""
    some = weights.nonzero()[:, 0]
    return pixels[:, some].double() @ weights[some].double()


def _by_neighbours(feature: Feature, free: Tensor, shape: torch.Size) -> Feature:
    """The same, each pixel being the mean of the free ones around it."""
    count = torch.nn.functional.avg_pool2d(free.view(1, *shape).double(), 3, 1, 1).clamp_min(1e-9)

    def spread(weights: Tensor) -> Tensor:
        each = weights.view(1, *shape).double() / count
        around: Tensor = torch.nn.functional.avg_pool2d(each, 3, 1, 1).flatten() * free
        return around

    return Feature(spread(feature.numerator), None if feature.denominator is None else spread(feature.denominator))

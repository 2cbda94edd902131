"""What is left in every bin while images are taken out, by triples of bins that were found to belong together."""

import torch
from torch import Tensor

from fluoroscope.attacks.imprint.adjacent import in_range
from fluoroscope.attacks.imprint.bin_sums import BinSums
from fluoroscope.attacks.imprint.bins import BELOW
from fluoroscope.attacks.imprint.craft import Crafted
from fluoroscope.attacks.imprint.design import design_of, inverse_of
from fluoroscope.attacks.imprint.fewest import SWEEPS, fewest
from fluoroscope.attacks.imprint.readings import centred, edges, readings

PROBES = 2048
"""Pixels that are looked at, at least; and four times the images."""
QUIET = 3.0
"""Times the noise: a bin with no more left than this is empty."""
ASTRAY = 5.0
"""Times the noise: so far beyond its bin's edge an image may seem to lie."""
WORK = 6e9
"""Of solving for triples together, in multiplications. A decoder that gets nowhere stops in seconds."""
GUESSES = 48
"""Images that are taken out on a guess, at most: beyond, guesses rest on guesses."""
SLACK = 1e-3
"""Of all bins' width: an image that was solved for may lie so far beyond its bin's edge."""
LOUDEST = 100.0
"""Times the noise of a bin, squared: images that are only known by so much are left alone."""


class Residue:
    """A row per bin: coefficient, pixels less the mean image, each feature's sums; and how often noise went in."""

    def __init__(self, sums: BinSums, crafted: Crafted) -> None:
        bins = crafted.bins
        self._bins, self._readable = bins, sums.readable
        free = ~torch.stack([feature.support for feature in bins.features]).any(0)
        # Beside large weights, small updates are rounded away.
        shown = torch.arange(len(free)) if sums.readable else free.nonzero()[:, 0]
        count = min(len(shown), max(PROBES, 4 * crafted.images))
        self.probes = shown[torch.linspace(0, len(shown) - 1, count).long()]
        self._mean = crafted.auxiliary.mean(0).flatten()[self.probes].double()
        coefficients = sums.coefficients[:, None]
        # Less the mean image, so that rounding is small beside what images differ by.
        pixels = sums.pixels[:, self.probes].double() - coefficients * self._mean
        self._features, self._edges = centred(bins), edges(bins)
        above, below, doubts = readings(sums, bins, crafted.auxiliary.shape[1:])
        self._held = torch.cat([coefficients, pixels, above, below, doubts, torch.ones_like(coefficients)], 1)
        self._variances = slice(-1 - len(bins.features), None)
        self._noise, self._guesses, self._work = 0.0, 0, 0
        self.members = torch.empty(0, 3, dtype=torch.int64)
        self._taken = torch.empty(0, self._held.shape[1], dtype=torch.float64)
        self.guessed = torch.empty(0, dtype=torch.bool)
        self.lumps = torch.empty(0, dtype=torch.bool)  # what was taken out as no image: several in the same three bins

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
            # From what is certain to what is likely. Lumps come last: until then, one may be images yet untold.
            steps = (self._together, self._alone, self._fewest, self._placed, self._seen, self._lumped)
            if not any(step(triples) for step in steps):
                break
        return self.images > before

    def _alone(self, triples: Tensor) -> bool:
        """Images that are the only ones in a bin that any triple puts there."""
        rows, members = triples.flatten(), triples.repeat_interleave(3, 0)
        single = self._often(rows)[rows] == 1
        rows, members = rows[single], members[single]
        astray, _ = self._lying(self._held[rows], members)
        return self._take_clearest(rows[astray <= 1], members[astray <= 1])

    def _placed(self, triples: Tensor) -> bool:
        """Bins that as one image lie where one triple says, sharply, and where no other does."""
        rows, members = triples.flatten(), triples.repeat_interleave(3, 0)
        astray, sharp = self._lying(self._held[rows], members)
        rows, members, sharp = rows[astray <= 1], members[astray <= 1], sharp[astray <= 1]
        only = sharp & (self._often(rows)[rows] == 1)
        return self._take_clearest(rows[only], members[only])

    def _often(self, rows: Tensor) -> Tensor:
        return torch.bincount(rows, minlength=len(self._held))

    def _take_clearest(self, rows: Tensor, members: Tensor) -> bool:
        """Take what is in these rows, of several in one bin the clearest: of it, all evidence is still there."""
        touched: set[int] = set()
        chosen = []
        for i in self._held[rows, -1].argsort(stable=True).tolist():
            own = members[i].tolist()
            if not touched.intersection(own):
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
        astray, _ = self._lying(self._held[rows], members)
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
        solved, good = self._solved(triples)
        if len(solved):
            astray, _ = self._lying(solved, triples)
            good &= astray <= 1
            self._take(solved[good], triples[good], guessed=False)
        return bool(good.any())

    def _fewest(self, triples: Tensor) -> bool:
        """Where several sets of triples explain what is left: the set of the fewest images.

        Sums of some images and less others explain it too, but they are longer and lie in none of their own bins.
        """
        triples = self._few(triples)
        solved, good = self._solved(triples)
        if len(solved):
            astray, sharp = self._lying(solved, triples)
            good &= (astray <= 1) & sharp
            self._take(solved[good], triples[good], guessed=False)
        return bool(good.any())

    def _lumped(self, triples: Tensor) -> bool:
        """The same, wherever it lies: what lies elsewhere is no image, but several that share all their bins."""
        triples = self._few(triples)
        solved, good = self._solved(triples)
        if len(solved):
            astray, _ = self._lying(solved, triples)
            self._take(solved[good], triples[good], guessed=True, lumps=astray[good] > 1)
        return bool(good.any())

    def _few(self, triples: Tensor) -> Tensor:
        """Those triples of the fewest that explain what is left."""
        rows, design, _ = design_of(triples)
        work = SWEEPS * design.numel() * len(rows)
        if self._work + work > WORK:
            return triples[:0]
        self._work += work
        return triples[fewest(design, self.evidence[rows], float(self._quiet(torch.ones(()))))]

    def _solved(self, triples: Tensor) -> tuple[Tensor, Tensor]:
        """What each triple holds, by least squares over all; and whether no combination of others could replace it."""
        rows, design, index = design_of(triples)
        work = design.numel() * len(rows)
        if not work or self._work + work > WORK:
            return self._taken[:0], self.guessed[:0]
        self._work += work
        inverse, determined = inverse_of(design)
        solved = inverse @ self._held[rows]
        solved[:, self._variances] = inverse.square() @ self._held[rows, self._variances]
        rest = self._held[rows] - design @ solved
        fitted = self._size(rest[:, : 1 + len(self.probes)]) < 2 * self._quiet(self._held[rows, -1])
        if not self._readable:
            self._measure_elsewhere(solved, rows, design)
        return solved, determined & fitted[index].all(1) & (solved[:, -1] < LOUDEST)

    def _measure_elsewhere(self, solved: Tensor, rows: Tensor, design: Tensor) -> None:
        """Where images lie by the bins of the other features alone, if those determine it.

        Two images that share two bins lend every other image of the third a ghost, one bin further, which explains all
        bins as well. A feature's own bins would say that the ghost lies there.
        """
        count, first = len(self._features), 1 + len(self.probes)
        for feature, chosen in enumerate(self._features):
            others = rows // self._bins.width != feature
            inverse, known = inverse_of(design[others])
            above, below, doubts = (first + feature + i * count for i in range(3))
            held = self._held[rows[others]]
            solved[known, above] = (inverse @ held[:, above])[known]
            solved[known, below] = (inverse @ held[:, below])[known]
            weights = sum(
                float(part.double().norm() ** 2) for part in (chosen.numerator, chosen.denominator) if part is not None
            )
            doubt = inverse.square() @ (held[:, doubts] + self._noise**2 * weights * held[:, -1])
            solved[known, doubts] = doubt[known]

    def _take(self, images: Tensor, members: Tensor, guessed: bool, lumps: Tensor | None = None) -> None:
        taken = images.clone()
        self.members = torch.cat([self.members, members])
        self.guessed = torch.cat([self.guessed, torch.full((len(members),), guessed)])
        self.lumps = torch.cat([self.lumps, torch.zeros(len(members), dtype=torch.bool) if lumps is None else lumps])
        self._taken = torch.cat([self._taken, taken])
        taken[:, self._variances] *= -1  # what is taken out brings the noise of where it was read
        for held in members.T:
            self._held.index_add_(0, held, taken, alpha=-1)

    def _lying(self, images: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
        """How far from its own bins each row lies as one image, 1 being the most it may; inf where it is no image.

        And whether its place is known to a bin in two features: as a sum of images it would hardly lie there.
        """
        size, columns = images[:, 0].abs(), 1 + len(self.probes)
        noise = self._noise * images[:, -1].sqrt()
        pixels = images[:, 1:columns] / images[:, :1] + self._mean
        could = (in_range(pixels, noise / size) > 0) & (self._size(images[:, :columns]) > self._quiet(images[:, -1]))
        above, below, doubts = torch.split(images[:, columns:-1], len(self._features), 1)
        worst, sharp = torch.zeros_like(size), torch.zeros_like(size)
        for feature, (chosen, ends) in enumerate(zip(self._features, self._edges, strict=True)):
            measured = above[:, feature] / below[:, feature]
            weights = 1.0 if chosen.denominator is None else float(chosen.denominator.double().norm() ** 2)
            length = (float(chosen.numerator.double().norm() ** 2) + weights * measured.square()).sqrt()
            unsure = ((noise * length).square() + doubts[:, feature]).sqrt()
            slack = ASTRAY * unsure / below[:, feature].abs()
            slack = slack + 1e-6 * self._bins.thresholds[feature].abs().max()  # clients count in float32
            place = members[:, feature] - feature * self._bins.width
            outside = torch.maximum(ends[place] - measured, measured - ends[place + 1]).clamp_min(0)
            worst = torch.maximum(worst, outside / slack)
            sharp += slack < ends[place + 1] - ends[place]
        return torch.where(could, worst, torch.full_like(worst, torch.inf)), sharp >= 2

    def in_place(self, images: Tensor, guessed: bool) -> Tensor:
        """(n,), bool: whether the taken images, as they were solved for in the end (n, pixels), lie in their bins.

        Where a feature's own pixels were `guessed` in part, the next bin is near enough.
        """
        good = torch.ones(len(images), dtype=torch.bool)
        beside = int(guessed)
        for feature, (chosen, ends) in enumerate(zip(self._features, self._edges, strict=True)):
            measured = chosen(images)
            place = self.members[:, feature] - feature * self._bins.width
            slack = SLACK * (ends[-2] - ends[BELOW])
            low, high = ends[(place - beside).clamp_min(0)], ends[(place + 1 + beside).clamp_max(len(ends) - 1)]
            good &= (measured > low - slack) & (measured < high + slack)
        return good

    def _quiet(self, added: Tensor) -> Tensor:
        quiet: Tensor = QUIET * self._noise * ((1 + len(self.probes)) * added.abs()).sqrt()
        return quiet

    @staticmethod
    def _size(rows: Tensor) -> Tensor:
        size: Tensor = rows.norm(dim=1)
        return size

"""A decoder that asks which bins belong together before it asks what is in them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.attacks.imprint.adjacent import Adjacent, in_range
from fluoroscope.attacks.imprint.bin_sums import BinSums, bin_sums
from fluoroscope.attacks.imprint.bins import Bins
from fluoroscope.attacks.imprint.craft import Crafted
from fluoroscope.attacks.imprint.recovered import Recovered
from fluoroscope.attacks.imprint.solve import solve_images, unexplained
from fluoroscope.attacks.imprint.triples import Triples, find_triples
from fluoroscope.types import State

PROBES = 2048
"""Pixels that are looked at, at least; and four times the images."""


@dataclass(frozen=True)
class Subspace:
    misfits: tuple[float, ...] = (1e-3, 1e-2, 0.05)

    def __call__(self, crafted: Crafted, update: State) -> Recovered:
        sums = bin_sums(crafted, update)
        shape = crafted.auxiliary.shape[1:]
        table = _Table(sums, crafted)
        rounds = 0
        for below in self.misfits:
            while table.images < crafted.images:
                found = find_triples(table.evidence, crafted.bins.width, crafted.images - table.images, below)
                if found is None or not len(found.members):
                    break
                table.noise = max(table.noise, found.noise)
                rounds += 1
                before = table.images
                table.open(found)
                if table.images == before:
                    break
        return table.solved(sums, shape)


class _Table:
    """What is left in every bin."""

    def __init__(self, sums: BinSums, crafted: Crafted) -> None:
        bins = crafted.bins
        self.bins, self.readable = bins, sums.readable
        free = ~torch.stack([feature.support for feature in bins.features]).any(0)
        shown = torch.arange(len(free)) if sums.readable else free.nonzero()[:, 0]
        count = min(len(shown), max(PROBES, 4 * crafted.images))
        self.probes = shown[torch.linspace(0, len(shown) - 1, count).long()]
        mean = crafted.auxiliary.mean(0).flatten().double()
        self.mean = mean[self.probes]
        pixels = sums.pixels[:, self.probes].double() - sums.coefficients[:, None] * self.mean
        above = torch.stack([sums.pixels.double() @ f.numerator.double() for f in bins.features], 1)
        below = torch.stack([sums.coefficients if f.denominator is None else sums.pixels.double() @ f.denominator.double() for f in bins.features], 1)
        self.held = torch.cat([sums.coefficients[:, None], pixels, above, below, torch.ones_like(sums.coefficients)[:, None]], 1)
        self.members = torch.empty(0, 3, dtype=torch.int64)
        self.taken = torch.empty(0, self.held.shape[1], dtype=torch.float64)
        self.noise = sums.noise

    @property
    def images(self):
        return len(self.members)

    @property
    def evidence(self):
        return self.held[:, : 1 + len(self.probes)]

    def empty(self):
        """rows with nothing but noise left"""
        d = 1 + len(self.probes)
        size = self.evidence.norm(dim=1)
        return size < 3 * self.noise * (d * self.held[:, -1].abs()).sqrt()

    def located(self, rows, members):
        """whether content of rows as an image lies in the bins members (n,3)"""
        n = len(self.probes)
        c = self.held[rows, 0]
        ok = torch.ones(len(rows), dtype=torch.bool)
        w = self.bins.width
        noise = self.noise * self.held[rows, -1].abs().sqrt()
        for f, feature in enumerate(self.bins.features):
            below = self.held[rows, 1 + n + 3 + f]
            h = self.held[rows, 1 + n + f] / below
            length = feature.numerator.double().norm() ** 2 + (h.square() * (feature.denominator.double().norm() ** 2 if feature.denominator is not None else 1.0))
            slack = 5 * noise * length.sqrt() / below.abs() + 1e-6 * h.abs()+1e-9
            place = members[:, f] - f * w
            t = self.bins.thresholds[f]
            low = t[place]
            high = torch.where(place + 1 < w, t[(place + 1).clamp_max(w - 1)], torch.inf)
            ok &= (h > low - slack) & (h < high + slack)
        return ok

    def open(self, found: Triples) -> None:
        members = found.members
        alive = torch.ones(len(members), dtype=torch.bool)
        while True:
            empty = self.empty()
            alive &= ~empty[members].any(1)
            live = alive.nonzero()[:, 0]
            if not len(live): return
            if self.readable:
                rows = members[live].flatten()
                which = live.repeat_interleave(3)
                n = len(self.probes)
                c = self.held[rows, 0]
                noise = self.noise * self.held[rows, -1].abs().sqrt()
                x = self.held[rows, 1 : 1 + n] / c[:, None] + self.mean
                good = self.located(rows, members[which]) & (in_range(x, noise / c.abs()) > 0)
            else:
                degree = torch.bincount(members[live].flatten(), minlength=len(self.held))
                rows = members[live].flatten(); which = live.repeat_interleave(3)
                good = degree[rows] == 1
            rows, which = rows[good], which[good]
            if not len(rows):
                if not self.core(members[live]): return
                continue
            # the cleanest first
            order = self.held[rows, -1].abs().argsort(stable=True)
            touched=set(); tr=[]; tm=[]
            for i in order.tolist():
                own = members[which[i]].tolist()
                if not touched.intersection(own):
                    touched.update(own); tr.append(int(rows[i])); tm.append(int(which[i]))
            self.take(torch.tensor(tr), members[tm])
            alive[tm] = False

    def core(self, members) -> bool:
        return False

    def take(self, rows, members):
        taken = self.held[rows].clone()
        taken[:, -1] *= -1
        self.members = torch.cat([self.members, members])
        self.taken = torch.cat([self.taken, taken])
        for f in range(3):
            self.held.index_add_(0, members[:, f], taken, alpha=-1)
        # the bin it was read from is empty
        
    def solved(self, sums, shape):
        if not len(self.members): return Recovered(torch.empty(0, *shape), torch.empty(0))
        values = self.taken[:, 0]
        closed = self.empty()[self.members]
        solved = solve_images(self.members, values, closed, sums, self.bins, shape)
        share = unexplained(self.members, values, solved, sums, self.probes)
        return Recovered(solved.view(-1, *shape).float(), (1 - share).clamp(0, 1).float())

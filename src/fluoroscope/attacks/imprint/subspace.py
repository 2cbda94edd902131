"""A decoder that asks which bins belong together before it asks what is in them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.attacks.imprint.adjacent import Adjacent
from fluoroscope.attacks.imprint.bin_sums import bin_sums
from fluoroscope.attacks.imprint.craft import Crafted
from fluoroscope.attacks.imprint.peeling import Peeling
from fluoroscope.attacks.imprint.recovered import Recovered
from fluoroscope.attacks.imprint.residue import Residue
from fluoroscope.attacks.imprint.solve import solve_images, unexplained
from fluoroscope.attacks.imprint.triples import SPARE, find_triples
from fluoroscope.types import State

GUESSED = 0.9
"""Confidence at most, of an image that several triples of bins could have held, or that may be a mixture."""
SAME, COMMON = 0.005, 0.25
"""Coefficients that differ by less are the same; what this share of the bins have is the coefficient of one image."""
ENOUGH, ALIKE, MOST = 8, 1.4, 3
"""So many coefficients of a sign, nine in ten within a factor, show what one image's is; of how many at most."""


@dataclass(frozen=True)
class Subspace:
    """Three features, one bin of each per image: triples that are consistent with all bins are found by linear algebra.

    Images that no other combination of triples could replace are solved for together, then those that are alone in a
    bin are read there; what is taken out makes the rest clearer. Of one feature, each bin is read by itself.

    Example:
        `Subspace()(crafted, update)` for what `MediLeak(...).craft(...)` made and the update that came back.
    """

    misfits: tuple[float, ...] = (1e-3, 1e-2, 0.05)
    """Of triples that are looked at, from strict to lenient."""

    def __call__(self, crafted: Crafted, update: State) -> Recovered:
        if len(crafted.bins.features) == 1:
            return _by_coefficients(Adjacent().read(crafted, update))
        if len(crafted.bins.features) != 3:
            return Peeling()(crafted, update)
        sums, shape = bin_sums(crafted, update), crafted.auxiliary.shape[1:]
        residue = Residue(sums, crafted)
        if crafted.images + SPARE >= residue.evidence.shape[1]:  # more images than pixels span everything
            return Peeling()(crafted, update)
        for below in self.misfits:
            while residue.images < crafted.images:
                found = find_triples(residue.evidence, crafted.bins.width, crafted.images - residue.images, below)
                if found is None:
                    break
                residue.hear(found.noise)
                if not residue.open(found.members):
                    break
        if not residue.images:
            return Recovered(torch.empty(0, *shape), torch.empty(0))
        members, values = residue.members, residue.coefficients
        solved, alike = solve_images(members, values, residue.empty[members], sums, crafted.bins, shape)
        placed = residue.in_place(solved, guessed=not sums.readable)
        confidence = (1 - unexplained(members, values, solved, sums, residue.probes)).minimum(alike).clamp(0, 1)
        copies = _copies(values)
        doubtful = residue.guessed | (copies > 1) | ~placed
        confidence = torch.where(doubtful, confidence.clamp_max(GUESSED), confidence)
        copies[residue.lumps] = 0
        images = solved.view(-1, *shape).float()
        return Recovered(images.repeat_interleave(copies, 0), confidence.float().repeat_interleave(copies))


def _copies(values: Tensor) -> Tensor:
    """(images,), int64: for how many images each coefficient stands, 1 where coefficients differ too much to say.

    Images that are nearly the same share all their bins, and what is found is their mean.
    """
    copies = torch.ones(len(values), dtype=torch.int64)
    for own in (values > 0, values < 0):
        sizes = values[own].abs()
        if len(sizes) >= ENOUGH and sizes.quantile(0.9) < ALIKE * sizes.median():
            copies[own] = (sizes / sizes.median()).round().clamp(1, MOST).long()
    return copies


def _by_coefficients(read: tuple[Recovered, Tensor]) -> Recovered:
    """Bins read by themselves: sure are those whose coefficient is the commonest of its sign, that of one image.

    Where the network has dropout, coefficients differ from image to image, and nothing is sure.
    """
    found, values = read
    alone = torch.zeros(len(values), dtype=torch.bool)
    for sign in (-1, 1):
        own = values.sign() == sign
        near = ((values[:, None] / values[None] - 1).abs() < SAME) & own[:, None] & own[None]
        if own.any():
            likeliest = near.sum(1)
            if int(likeliest.max()) >= COMMON * int(own.sum()):
                alone |= near[int(likeliest.argmax())]
    return Recovered(found.images, torch.where(alone, found.confidence, found.confidence.clamp_max(GUESSED)))

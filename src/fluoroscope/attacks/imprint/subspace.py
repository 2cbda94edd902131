"""A decoder that asks which bins belong together before it asks what is in them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.attacks.imprint.bin_sums import bin_sums
from fluoroscope.attacks.imprint.craft import Crafted
from fluoroscope.attacks.imprint.recovered import Recovered
from fluoroscope.attacks.imprint.residue import Residue
from fluoroscope.attacks.imprint.solve import solve_images, unexplained
from fluoroscope.attacks.imprint.triples import find_triples
from fluoroscope.types import State

GUESSED = 0.9
"""Confidence at most, of an image that several triples of bins could have held."""


@dataclass(frozen=True)
class Subspace:
    """Three features, one bin of each per image: triples that are consistent with all bins are found by linear algebra.

    Then an image that is alone in a bin is read there, those that hold each other in all bins by least squares, and
    what is taken out makes the rest clearer.
    """

    misfits: tuple[float, ...] = (1e-3, 1e-2, 0.05)
    """Of triples that are looked at, from strict to lenient."""

    def __call__(self, crafted: Crafted, update: State) -> Recovered:
        sums, shape = bin_sums(crafted, update), crafted.auxiliary.shape[1:]
        residue = Residue(sums, crafted)
        for below in self.misfits:
            while residue.images < crafted.images:
                left = crafted.images - residue.images
                found = find_triples(residue.evidence, crafted.bins.width, left, below)
                if found is None:
                    break
                residue.hear(found.noise)
                if not residue.open(found.members):
                    break
        if not residue.images:
            return Recovered(torch.empty(0, *shape), torch.empty(0))
        members, values = residue.members, residue.coefficients
        solved = solve_images(members, values, residue.empty[members], sums, crafted.bins, shape)
        confidence = (1 - unexplained(members, values, solved, sums, residue.probes)).clamp(0, 1)
        confidence = torch.where(residue.guessed, confidence.clamp_max(GUESSED), confidence)
        return Recovered(solved.view(-1, *shape).float(), confidence.float())

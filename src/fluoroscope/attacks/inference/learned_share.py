"""A site's share of a property, learned by simulation: rounds are played on public images with more and less of it.

Property inference (Ateniese et al. 2015; in federated learning Melis et al., S&P 2019) with a regression in the place
of their classifier, so that it answers with a share and an interval.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.inference.learned_counts import dealt, halved
from fluoroscope.attacks.inference.property import PROPERTY_ATTACKS, Share, shares_within
from fluoroscope.attacks.inference.registry import Seen
from fluoroscope.attacks.inference.update_reader import UpdateReader, learned_reader
from fluoroscope.digest import digest
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.types import Capability, LabelledImages, PrivateBatch

_FEWEST = 19
"""Simulations below which no residual is as rare as 1 in 20."""


@dataclass(frozen=True)
class LearnedShare:
    """Adapts to any training and any defence of the client: what can be played can be learned from.

    The interval's half-width is the quantile of what was missed of simulated rounds that were left out in turn.
    Each is played on a random half of the public images, so that it holds what other patients would change (`halved`).
    A client whose patients are of another kind is not covered by it.
    """

    needs: ClassVar[frozenset[Capability]] = SIMULATION | {Capability.UPDATE, Capability.PUBLIC_IMAGES}

    simulations: int = 48

    def run(self, observations: Seen, having: Tensor, rng: Generator) -> list[Share]:
        """A share per observation. Those of one round and one training configuration are learned for once."""
        if self.simulations < _FEWEST:
            raise Misconfigured(
                f"learned-share needs {_FEWEST} simulations or more for an interval of 95 %, not {self.simulations}."
            )
        readers: dict[str, UpdateReader] = {}
        found = []
        for seen in observations:
            setup = Setup.of(seen, self.needs, "learned-share")
            assert seen.public_images is not None  # in `needs`
            key = digest(setup.state, setup.training, seen.public_images, seen.defence, sorted(seen.update or {}))
            if key not in readers:
                readers[key] = _learned(setup, seen.public_images, having, self.simulations, rng)
            found += shares_within(readers[key].read(seen), readers[key].half_width)
        return found


def _learned(setup: Setup, public: LabelledImages, having: Tensor, simulations: int, rng: Generator) -> UpdateReader:
    if len(having) != len(public) or not having.any() or having.all():
        raise BadInput(
            f"learned-share needs public images with the property and without: {int(having.sum())} of {len(having)} "
            f"marked, for {len(public)} images."
        )
    images, sides = setup.training.images, (having.nonzero()[:, 0], (~having).nonzero()[:, 0])

    def drawn(number: int) -> tuple[PrivateBatch, Tensor]:
        # Evenly over all shares, in random places of even steps: no share is left out by bad luck.
        share = (number + float(torch.rand(1, generator=rng))) / simulations
        with_it = round(share * images)
        chosen = dealt(halved(sides, rng), (with_it, images - with_it), rng)
        batch = PrivateBatch(public.images[chosen], public.labels[chosen], ("",) * images)
        return batch, torch.tensor([with_it / images], dtype=torch.float64)

    return learned_reader("learned-share", setup, drawn, simulations, rng)


PROPERTY_ATTACKS.add("learned-share", LearnedShare())

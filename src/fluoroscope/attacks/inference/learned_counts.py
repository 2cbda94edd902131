"""Counts learned by simulation: the client's rounds are played on public images of random class mixes, and a ridge
regression reads the mix from what would have been sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.inference.label_counts import LABEL_COUNT_ATTACKS, by_class, whole_counts
from fluoroscope.attacks.inference.property import Share, shares_within
from fluoroscope.attacks.inference.registry import Seen
from fluoroscope.attacks.inference.update_reader import UpdateReader, learned_reader
from fluoroscope.digest import digest
from fluoroscope.errors import Misconfigured
from fluoroscope.types import Capability, PrivateBatch


@dataclass(frozen=True)
class LearnedCounts:
    """Adapts to any training and any defence of the client: what can be played can be learned from.

    Each simulated round has a random half of the public images, of each class.
    """

    needs: ClassVar[frozenset[Capability]] = SIMULATION | {Capability.UPDATE, Capability.PUBLIC_IMAGES}

    simulations: int = 64

    def run(self, observations: Seen, rng: Generator) -> Tensor:
        """A row per observation. Those of one round and one training configuration are learned for once."""
        return torch.stack(
            [
                whole_counts(reader.read(seen), Setup.of(seen).training.images)
                for seen, reader in zip(observations, self._readers(observations, rng), strict=True)
            ]
        )

    def shares(self, observations: Seen, rng: Generator) -> list[list[Share]]:
        """A share per class and observation, with what was missed of 95 % of the simulated rounds as its interval."""
        return [
            shares_within(reader.read(seen), reader.half_width)
            for seen, reader in zip(observations, self._readers(observations, rng), strict=True)
        ]

    def _readers(self, observations: Seen, rng: Generator) -> list[UpdateReader]:
        if self.simulations < 4:
            raise Misconfigured(f"learned-counts needs 4 simulations or more, not {self.simulations}.")
        readers: dict[str, UpdateReader] = {}
        found = []
        for seen in observations:
            setup = Setup.of(seen, self.needs, "learned-counts")
            key = digest(setup.state, setup.training, seen.public_images, seen.defence, sorted(seen.update or {}))
            if key not in readers:
                readers[key] = _learned(setup, self.simulations, rng)
            found.append(readers[key])
        return found


def _learned(setup: Setup, simulations: int, rng: Generator) -> UpdateReader:
    public = setup.observation.public_images
    assert public is not None  # in `needs`
    places = by_class("learned-counts", public, setup.outputs)
    mixes = even_mixes(simulations, setup.outputs, rng)

    def drawn(number: int) -> tuple[PrivateBatch, Tensor]:
        chosen = dealt(halved(places, rng), whole_counts(mixes[number], setup.training.images).tolist(), rng)
        batch = PrivateBatch(public.images[chosen], public.labels[chosen], ("",) * len(chosen))
        return batch, batch.labels.bincount(minlength=setup.outputs) / len(batch)

    return learned_reader("learned-counts", setup, drawn, simulations, rng)


def even_mixes(count: int, classes: int, rng: Generator) -> Tensor:
    """(count, classes): shares that fill all possible mixes evenly, so that none is left out by bad luck.

    The gaps between sorted uniform numbers are uniform on the simplex; numbers of a Sobol sequence are more even still.
    """
    seed = int(torch.randint(2**31, (), generator=rng))
    sobol = torch.quasirandom.SobolEngine(max(1, classes - 1), scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    points = sobol.draw(count)
    ends = torch.zeros(count, 1), points[:, : classes - 1].sort(1).values, torch.ones(count, 1)
    return torch.cat(ends, 1).diff(dim=1)


def random_mix(places: list[Tensor], images: int, spread: float, rng: Generator) -> list[int]:
    """Images of a client with a random class mix: shares by a Dirichlet distribution, images by lot.

    Within a class nobody comes again before everybody was taken.
    """
    # Dirichlet: gamma variables by their sum. A gamma of shape k below 1 is one of k + 1 times u^(1/k) (Marsaglia).
    gammas = _gammas(torch.full((len(places),), spread, dtype=torch.float64), rng)
    shares = gammas / gammas.sum()
    drawn = torch.multinomial(shares.clamp_min(1e-12), images, replacement=True, generator=rng)
    return dealt(places, drawn.bincount(minlength=len(places)).tolist(), rng)


def halved(places: Sequence[Tensor], rng: Generator) -> list[Tensor]:
    """A random half of each of these groups.

    Halves differ as the public images do from all that they were drawn from: the mean over a half varies about that
    over n as the latter does about the truth (McCarthy, Rev. ISI 1969, balanced half-samples). So what is learned from
    rounds that were each played on another half is what does not depend on which patients a client has.
    """
    return [own[torch.randperm(len(own), generator=rng)][: -(-len(own) // 2)] for own in places]


def dealt(places: Sequence[Tensor], counts: Sequence[int], rng: Generator) -> list[int]:
    """So many of each of these groups by lot; nobody comes again before everybody of the group was taken."""
    chosen: list[int] = []
    for own, count in zip(places, counts, strict=True):
        times = -(-count // len(own))
        orders = [own[torch.randperm(len(own), generator=rng)] for _ in range(times)]
        chosen += torch.cat(orders)[:count].tolist() if orders else []
    return chosen


def _gammas(shape: Tensor, rng: Generator) -> Tensor:
    uniform = torch.rand(shape.shape, generator=rng, dtype=torch.float64)
    return torch._standard_gamma(shape + 1, generator=rng) * uniform ** (1 / shape)


LABEL_COUNT_ATTACKS.add("learned-counts", LearnedCounts())

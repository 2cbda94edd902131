"""Defences stacked, each at its seam, in the order in which an update meets them."""

from dataclasses import dataclass
from itertools import pairwise

import torch

from fluoroscope.defences.contract import (
    CountedDefence,
    Defence,
    Participation,
    SealingDefence,
    ServerDefence,
    StatisticsDefence,
    TrainingDefence,
    UpdateDefence,
)
from fluoroscope.defences.mechanism import SampledGaussian
from fluoroscope.errors import Misconfigured
from fluoroscope.types import NO_CLAIM, LocalTraining, PrivacyClaim, Sgd, UpdateRecord

SEAMS = ("while the client trains", "on what leaves the client", "at the server")
_PROBE = Participation(LocalTraining(Sgd(1.0), images=1, batch_size=1), rounds=1, share=1.0, values=1)
"""The plainest participation: what promises anything promises something for it."""


@dataclass(frozen=True)
class Chain:
    """Any number of defences as one. Made by `chain`, which refuses an order that could not be."""

    parts: tuple[Defence, ...] = ()

    @property
    def training(self) -> TrainingDefence | None:
        """What stands in for plain training."""
        return next((part for part in self.parts if isinstance(part, TrainingDefence)), None)

    @property
    def cohort(self) -> ServerDefence | None:
        """What stands at the server."""
        return next((part for part in self.parts if isinstance(part, ServerDefence)), None)

    @property
    def encryption(self) -> SealingDefence | None:
        """What seals the update; always the last to touch it."""
        return next((part for part in self.parts if isinstance(part, SealingDefence)), None)

    @property
    def withholds_statistics(self) -> bool:
        """Whether BatchNorm's statistics stay with the clients."""
        return any(part.withholds_statistics for part in self.parts if isinstance(part, StatisticsDefence))

    def before_encryption(self) -> "Chain":
        """The parts that meet the update while it is open."""
        return Chain(tuple(part for part in self.parts if not isinstance(part, SealingDefence)))

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        """The record after every part that changes what leaves."""
        for part in self.parts:
            if isinstance(part, UpdateDefence):
                record = part.send(record, rng)
        return record

    def claim(self, participation: Participation) -> PrivacyClaim:
        """The one claim that a part makes: what comes after it sees only its output, and cannot void it.

        Without a claim, the statements of all parts.
        """
        claims = [part.claim(participation) for part in self.parts]
        if not claims:
            return NO_CLAIM
        proved = [claim for claim in claims if claim.epsilon is not None]
        return proved[0] if proved else PrivacyClaim(statement="; ".join(dict.fromkeys(c.statement for c in claims)))

    def counted(self, participation: Participation) -> SampledGaussian | None:
        """What the claim's epsilon is counted from; None where there is none, or where its part does not say."""
        for part in self.parts:
            if part.claim(participation).epsilon is not None:
                return part.mechanism(participation) if isinstance(part, CountedDefence) else None
        return None


NO_DEFENCE = Chain()


def chain(*defences: Defence) -> Chain:
    """Stack defences, in the order in which an update meets them; those of another seam stand where that seam is.

    Args:
        defences: any number: at most one that trains and one at the server.

    Raises:
        Misconfigured: the order cannot be, or two of them claim different things.

    Example:
        >>> import fluoroscope as fl
        >>> len(fl.chain(fl.FedBn(), fl.ClipAndNoise(1.0, 0.5)).parts)
        2
    """
    flat = [part for defence in defences for part in (defence.parts if isinstance(defence, Chain) else (defence,))]
    seams = [_seam(part) for part in flat]
    for place in (0, 2):
        if seams.count(place) > 1:
            names = " and ".join(_name(part) for part in flat if _seam(part) == place)
            raise Misconfigured(f"{names} both stand {SEAMS[place]}: leave one out.")
    for first, second in pairwise(flat):
        if _seam(first) > _seam(second):
            raise Misconfigured(
                f"{_name(second)} stands {SEAMS[_seam(second)]}, so it comes before {_name(first)}, which stands "
                f"{SEAMS[_seam(first)]}: change their order."
            )
    sealing = [i for i, part in enumerate(flat) if isinstance(part, SealingDefence)]
    if sealing and any(_seam(part) == 1 for part in flat[sealing[0] + 1 :]):
        raise Misconfigured(
            f"{_name(flat[sealing[0]])} is the last to touch an update: nothing can change what it cannot read. Put "
            "the others before it."
        )
    promising = [part for part in flat if part.claim(_PROBE).epsilon is not None] if len(flat) > 1 else []
    if len(promising) > 1:
        raise Misconfigured(
            f"{' and '.join(map(_name, promising))} each make a claim of their own, about different things; a chain "
            "carries one. Leave one out."
        )
    return Chain(tuple(flat))


def _seam(part: Defence) -> int:
    if isinstance(part, TrainingDefence):
        return 0
    if isinstance(part, UpdateDefence):
        return 1
    if isinstance(part, ServerDefence):
        return 2
    raise Misconfigured(
        f"{part!r} stands at none of the three seams: it needs train, send, or clip_update and noise_aggregate."
    )


def _name(part: Defence) -> str:
    return type(part).__name__

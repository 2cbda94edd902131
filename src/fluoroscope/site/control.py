"""Both ways through the site's door: a model is inspected when it comes in, an update is measured before it leaves.

Flower mods, the supernode, NVFlare's and MONAI's filters are adapters around this one class: they turn a message into
two states, and a decision into their framework's way of saying no. Whatever cannot be read is withheld.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from fluoroscope.defences import NO_DEFENCE, Chain, Participation
from fluoroscope.defences.guard import Verdict, inspect
from fluoroscope.defences.guard.digest import digest
from fluoroscope.errors import FluoroscopeError
from fluoroscope.rng import generator
from fluoroscope.site.decision import Decision
from fluoroscope.site.ledger import Entry, Ledger
from fluoroscope.site.meter import meter
from fluoroscope.site.policy import Policy
from fluoroscope.site.reading import Metered, not_judged
from fluoroscope.types import LabelledImages, LocalTraining, Network, PrivateBatch, State, UpdateRecord


@dataclass(frozen=True, eq=False)
class Subject:
    """What the site knows about what passes its door. Less is allowed, and less can then be judged."""

    network: Network | None = None
    training: LocalTraining | None = None
    own: Callable[[], PrivateBatch] | None = None
    """The site's own images, asked for when they are needed. They never leave."""
    public: Callable[[], LabelledImages] | None = None
    """Public images of the same kind: what an attacker would learn from."""
    defence: Chain = NO_DEFENCE
    """What the site itself does to an update before it leaves."""


@dataclass(frozen=True, eq=False)
class Outgoing:
    """An update at the door."""

    decision: Decision
    state: dict[str, Tensor]
    """What may leave: defended where the site has a defence. Empty where it is withheld."""
    metered: Metered


@dataclass(frozen=True, eq=False)
class SiteControl:
    """One site's door."""

    policy: Policy
    ledger: Ledger
    subject: Subject
    kept: Path | None = None
    """Where what the meter learned is kept for the next time."""

    def receive(self, state: State, *, run: str, round: int) -> Decision:
        """Whether this model may be trained here. The decision is in the ledger when this returns."""
        ...

    def release(self, before: State, after: State, *, run: str, round: int) -> Outgoing:
        """Whether this update may leave, and in what form. The decision is in the ledger when this returns.

        Args:
            before: the global model that the client was sent.
            after: what it would send back: all arrays, or less where something stays here.
            run: the federation's own name or number.
            round: the round's number.
        """
        ...

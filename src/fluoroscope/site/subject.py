"""What a site knows about what passes its door."""

from collections.abc import Callable
from dataclasses import dataclass

from fluoroscope.defences import NO_DEFENCE, Chain
from fluoroscope.types import LabelledImages, LocalTraining, Network, PrivateBatch


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

"""What a site knows about what passes its door."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from fluoroscope.defences import NO_DEFENCE, Chain
from fluoroscope.models.names import TOOLS, completed, unwrapped
from fluoroscope.types import LabelledImages, LocalTraining, Network, PrivateBatch, State, blueprint


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

    def whole(self, arrays: State) -> dict[str, Tensor]:
        """A model by the names of the site's own network, where it is known, and whole where only a part travels."""
        if self.network is None:
            return unwrapped(arrays, wrappers=TOOLS)
        network = blueprint(self.network)
        named = unwrapped(arrays, network.state_dict())
        return completed(named, network, () if self.training is None else self.training.frozen)

"""What an attacker sets up who simulates a client: its network, its training, and where its round began."""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor, nn

from fluoroscope.models.modes import client_mode, trained_names
from fluoroscope.threat_models.needs import require
from fluoroscope.types import Capability, LocalTraining, Network, Observation, blueprint

SIMULATION = frozenset({Capability.ARCHITECTURE, Capability.TRAINING, Capability.GLOBAL_STATE})
"""Without these nobody can simulate a client."""


@dataclass(frozen=True, eq=False)
class Setup:
    """The granted part of an observation with plain fields, and the network as the client runs it."""

    observation: Observation
    network: Network
    training: LocalTraining
    model: nn.Module
    """A copy of its own, in the client's mode."""
    state: dict[str, Tensor]
    """Parameters and buffers that the round began with."""
    trained: tuple[str, ...]
    """The parameters that the client trains, in the order of the network."""

    @classmethod
    def of(cls, observation: Observation, needs: Iterable[Capability] = (), attack: str = "this attack") -> "Setup":
        """For an observation that grants what a simulation needs, and `needs` beside it."""
        require(attack, observation, sorted(SIMULATION | set(needs)))
        network, training = observation.network, observation.training
        assert network is not None  # required above, as is the training
        assert training is not None
        model = client_mode(blueprint(network), training)
        state = {**(observation.state_before or {}), **(observation.buffers_before or {})}
        return cls(observation, network, training, model, state, tuple(trained_names(model, training)))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of all images of the client."""
        return self.training.images, *self.network.input_shape

    @property
    def batch_shape(self) -> tuple[int, int, int, int]:
        """Of a batch, but for a smaller last one."""
        return min(self.training.batch_size, self.training.images), *self.network.input_shape

    @property
    def outputs(self) -> int:
        return self.network.outputs

    @property
    def update(self) -> dict[str, Tensor]:
        """The change of every parameter that the client trained and sent."""
        seen = self.observation.update or {}
        return {name: seen[name] for name in self.trained if name in seen}

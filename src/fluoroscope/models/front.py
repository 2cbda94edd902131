"""What P2's malicious server puts before the agreed network: flatten, dense, ReLU, dense, back to an image."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from fluoroscope.errors import Misconfigured
from fluoroscope.rng import derive, seeded_globals
from fluoroscope.types import Network
from fluoroscope.types.network import Shape


@dataclass(frozen=True)
class Front:
    """Dense layers that a server puts before the agreed network: pixels, neurons, pixels (P2 fig. 2)."""

    neurons: int
    activation: Literal["relu", "hardtanh"] = "relu"
    """hardtanh is Robbing the Fed's sparse variant: a neuron passes gradient for its own bin only."""
    ceiling: float = 1.0
    """Of the hard tanh."""
    gate: bool = False
    """The neurons meet in one more rectified unit, from which the image is made: P2's identical columns, as one."""

    def __post_init__(self) -> None:
        if self.neurons < 1:
            raise Misconfigured(f"a front needs at least 1 neuron, not {self.neurons}.")


class FrontedNetwork(Network):
    """What a malicious server sends: a front, then the agreed network. State names gain `front.` and `network.`."""

    def __init__(self, agreed: Network, front: Front) -> None:
        self.name = agreed.name
        self.agreed, self.front = agreed, front

    @property
    def input_shape(self) -> Shape:
        return self.agreed.input_shape

    @property
    def outputs(self) -> int:
        return self.agreed.outputs

    @property
    def key(self) -> str:
        return f"{self.agreed.key} behind {self.front}"

    def build(self, seed: int = 0) -> nn.Module:
        network = self.agreed.build(seed)
        with seeded_globals(derive(seed, "initial weights", "front")):
            front = DenseFront(self.input_shape, self.front)
        return nn.Sequential(OrderedDict(front=front, network=network))


class DenseFront(nn.Module):
    """P2 section IV: d -> neurons -> d. With a gate, neurons -> 1 -> d: the rank that identical columns have."""

    def __init__(self, shape: tuple[int, int, int], front: Front) -> None:
        super().__init__()
        pixels = shape[0] * shape[1] * shape[2]
        self.first = nn.Linear(pixels, front.neurons)
        self.activation = nn.ReLU() if front.activation == "relu" else nn.Hardtanh(0.0, front.ceiling)
        if front.gate:
            self.gate: nn.Module = nn.Sequential(OrderedDict(sum=nn.Linear(front.neurons, 1), relu=nn.ReLU()))
            self.second = nn.Linear(1, pixels)
        else:
            self.gate = nn.Identity()
            self.second = nn.Linear(front.neurons, pixels)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.gate(self.activation(self.first(images.flatten(1))))
        made: Tensor = self.second(hidden).view_as(images)
        return made

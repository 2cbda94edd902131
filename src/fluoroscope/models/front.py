"""What P2's malicious server puts before the agreed network: flatten, dense, ReLU, dense, back to an image."""

from collections import OrderedDict

from torch import Tensor, nn

from fluoroscope.errors import Misconfigured
from fluoroscope.types import Architecture, Front


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


def behind_front(architecture: Architecture, front: Front, network: nn.Module) -> nn.Module:
    """The agreed network behind the added layers; state names gain `front.` and `network.`."""
    if front.neurons < 1:
        raise Misconfigured(f"a front needs at least 1 neuron, not {front.neurons}.")
    shape = (architecture.channels, architecture.size, architecture.size)
    return nn.Sequential(OrderedDict(front=DenseFront(shape, front), network=network))

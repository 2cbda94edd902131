"""Chosen layers never leave in the clear (P1 section IV)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fluoroscope.defences.contract import Participation
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.errors import Misconfigured
from fluoroscope.types import PrivacyClaim, State, UpdateRecord


def chosen(layers: tuple[str, ...], names: State) -> set[str]:
    """The tensors of these layers; a layer that the network does not have is refused."""
    found: set[str] = set()
    for layer in layers:
        of_layer = {name for name in names if name == layer or name.startswith(f"{layer}.")}
        if not of_layer:
            known = sorted({name.rpartition(".")[0] for name in names})
            raise Misconfigured(f"there is no layer {layer!r} to hide. The network has: {', '.join(known)}.")
        found |= of_layer
    return found


@DEFENCES.register("hidden-layers")
@dataclass(frozen=True)
class HiddenLayers:
    """The named layers, with all that is below them, stay at home: parameters and statistics.

    Example:
        >>> HiddenLayers(layers=("conv1", "layer1")).layers
        ('conv1', 'layer1')
    """

    layers: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.layers:
            raise Misconfigured("hidden-layers hides nothing: name at least one layer, such as layers = ['conv1'].")

    def claim(self, participation: Participation) -> PrivacyClaim:
        return PrivacyClaim(statement="not differential privacy: the other layers are sent as they are")

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        hidden = chosen(self.layers, {**record.state_before, **record.buffers_before})

        def open_part(state: State) -> dict[str, Tensor]:
            return {name: value for name, value in state.items() if name not in hidden}

        buffers = None if record.buffers_after is None else open_part(record.buffers_after)
        return replace(record, state_after=open_part(record.state_after), buffers_after=buffers)

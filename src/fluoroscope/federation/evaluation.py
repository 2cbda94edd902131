"""A global model scored on a labelled set, at a client or at the server."""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fluoroscope.models.modes import use_mode
from fluoroscope.scores.utility import Utility, utility
from fluoroscope.types import Normalisation, PrivateBatch, State

CHUNK = 64
"""Images in one forward pass: bounds the memory, changes no result."""


def evaluate(model: nn.Module, state: State, data: PrivateBatch, normalisation: Normalisation | None = None) -> Utility:
    """Utility of `state` on `data`."""
    return utility(predict(model, state, data.images, normalisation), data.labels)


def is_utility(value: object) -> bool:
    """Whether a file's value can be one: the scores that could not be had are None, but the accuracy always can."""
    if not isinstance(value, dict) or not set(Utility.__annotations__) <= set(value):
        return False
    numbers = all(v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in value.values())
    accuracy, images = value["accuracy"], value["images"]
    return numbers and accuracy is not None and 0 <= accuracy <= 1 and isinstance(images, int) and images > 0


@torch.no_grad()
def predict(model: nn.Module, state: State, images: Tensor, normalisation: Normalisation | None = None) -> Tensor:
    """Outputs (n, classes) in evaluation mode, on the device of `state`."""
    network = use_mode(model, normalisation)
    device = next(iter(state.values())).device
    chunks = [
        torch.func.functional_call(network, dict(state), (part.to(device),)) for part in torch.split(images, CHUNK)
    ]
    return torch.cat(chunks)


@torch.no_grad()
def with_statistics_of(
    model: nn.Module, state: State, images: Tensor, normalisation: Normalisation | None = None
) -> dict[str, Tensor]:
    """The state with BatchNorm's statistics estimated anew: for a model whose clients keep theirs at home."""
    network = use_mode(model, normalisation).train()
    for module in network.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            module.momentum = None  # a plain mean over the chunks
    fresh = {name: value.to(next(iter(state.values())).device) for name, value in network.state_dict().items()}
    statistics = {name: fresh[name] for name, _ in network.named_buffers()}
    restated = {**state, **statistics}
    for chunk in torch.split(images, CHUNK):
        torch.func.functional_call(network, restated, (chunk.to(fresh[next(iter(fresh))].device),))
    return restated

"""A global model scored on a labelled set, at a client or at the server."""

import copy

import torch
from torch import nn

from fluoroscope.scores.utility import Utility, utility
from fluoroscope.types import PrivateBatch, State

CHUNK = 64
"""Images in one forward pass: bounds the memory, changes no result."""


@torch.no_grad()
def evaluate(model: nn.Module, state: State, data: PrivateBatch) -> Utility:
    """Utility of `state` on `data`, in evaluation mode, on the device of `state`."""
    network = copy.deepcopy(model).eval()
    device = next(iter(state.values())).device
    chunks = torch.split(data.images, CHUNK)
    logits = [torch.func.functional_call(network, dict(state), (images.to(device),)) for images in chunks]
    return utility(torch.cat(logits), data.labels)

"""What a model makes of records: the evidence of every inference attack."""

import torch
from torch import Tensor
from torch.func import functional_call

from fluoroscope.models.modes import use_mode
from fluoroscope.types import LabelledImages, Network, State, blueprint

CHUNK = 64
"""Images in one forward pass."""


@torch.no_grad()
def logits(network: Network, state: State, records: LabelledImages) -> Tensor:
    """(n, classes), in evaluation mode, in float64."""
    model = use_mode(blueprint(network), None)
    device = next(iter(state.values())).device
    chunks = [functional_call(model, dict(state), (part.to(device),)) for part in torch.split(records.images, CHUNK)]
    return torch.cat(chunks).double().cpu()


def losses(network: Network, state: State, records: LabelledImages) -> Tensor:
    """The cross-entropy of each record, (n,)."""
    return torch.nn.functional.cross_entropy(logits(network, state, records), records.labels.cpu(), reduction="none")

"""What a model makes of records: the evidence of every inference attack."""

import torch
from torch import Tensor
from torch.func import functional_call

from fluoroscope.models import build
from fluoroscope.types import Architecture, LabelledImages, State

CHUNK = 64
"""Images in one forward pass."""


@torch.no_grad()
def logits(architecture: Architecture, state: State, records: LabelledImages) -> Tensor:
    """(n, classes), in evaluation mode, in float64."""
    network = build(architecture).eval()
    device = next(iter(state.values())).device
    chunks = [functional_call(network, dict(state), (part.to(device),)) for part in torch.split(records.images, CHUNK)]
    return torch.cat(chunks).double().cpu()


def losses(architecture: Architecture, state: State, records: LabelledImages) -> Tensor:
    """The cross-entropy of each record, (n,)."""
    return torch.nn.functional.cross_entropy(
        logits(architecture, state, records), records.labels.cpu(), reduction="none"
    )

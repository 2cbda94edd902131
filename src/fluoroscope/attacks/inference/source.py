"""Source inference (Hu et al., ICDM 2021): which client trained on this record? Needs each client's model."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fluoroscope.attacks.inference.losses import losses
from fluoroscope.errors import Misconfigured
from fluoroscope.types import LabelledImages, Network, State


def client_losses(network: Network, models: Sequence[State], records: LabelledImages) -> Tensor:
    """Of each record under each client's sent model, (clients, n)."""
    if len(models) < 2:
        raise Misconfigured(f"source inference tells clients apart; {len(models)} is too few, give two or more.")
    return torch.stack([losses(network, model, records) for model in models])


def source_posterior(found: Tensor) -> Tensor:
    """How likely each client is the source, from `client_losses`: the softmax of the negative losses over clients."""
    return (-found).softmax(0)


def source_guess(found: Tensor) -> Tensor:
    """The client whose model has the lowest loss (Hu et al. theorem 1), (n,)."""
    return found.argmin(0)

"""Membership by a threshold on the loss (Yeom et al., CSF 2018): a record that was trained on is fitted better."""

from torch import Tensor

from fluoroscope.attacks.inference.losses import losses
from fluoroscope.types import LabelledImages, Network, State, UpdateRecord


def sent_model(record: UpdateRecord) -> dict[str, Tensor]:
    """What the server's seat attacks: the client's model; what stayed at home is as the round began."""
    before = {**record.state_before, **record.buffers_before}
    return {**before, **record.state_after, **(record.buffers_after or {})}


def loss_scores(network: Network, state: State, candidates: LabelledImages) -> Tensor:
    """High where a record seems to have been trained on, (n,).

    The server's seat gives `sent_model` of a client's record, the client's seat the global model after the round.
    """
    return -losses(network, state, candidates)

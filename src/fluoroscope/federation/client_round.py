"""One client's round: it trains from what it was sent, and its defences see to what leaves.

The one place where this is done: Flower's client, secure aggregation, audits, calibration, studies, shadow rounds and
attackers who simulate a client all call it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fluoroscope.defences import NO_DEFENCE, Chain, Participation
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.local_training import local_training
from fluoroscope.types import LocalTraining, Network, PrivateBatch, State, UpdateRecord, blueprint


@dataclass(frozen=True, eq=False)
class ClientRound:
    """What left a client, and what stayed."""

    record: UpdateRecord
    """As the server sees it."""
    local_state: dict[str, Tensor]
    """What did not leave: the client puts it into the model of its next round."""
    loss: float
    """Mean training loss over all images of all epochs."""
    ciphertexts: tuple[bytes, ...] = ()
    """The change of what was sealed, where the defence encrypts."""

    @property
    def sent(self) -> dict[str, Tensor]:
        """Parameters and buffers that left in the open."""
        return {**self.record.state_after, **(self.record.buffers_after or {})}


def client_round(
    network: Network,
    state: State,
    batch: PrivateBatch,
    training: LocalTraining,
    rng: torch.Generator,
    defence: Chain = NO_DEFENCE,
    *,
    local_state: Mapping[str, Tensor] | None = None,
    defence_rng: torch.Generator | None = None,
    server_round: int = 1,
    client: str = "client",
    share: float = 1.0,
) -> ClientRound:
    """Train on `batch` from the global `state`, then let the defence have the update.

    Args:
        network: what is trained.
        state: the global parameters and buffers, as they were received.
        batch: the client's images.
        training: how it trains; FedProx's term is part of it.
        rng: of the training, and of the defence where that has none of its own.
        defence: what stands between the client and the server.
        local_state: what the client kept in its last round.
        defence_rng: of what the defence draws.
        server_round: the round's number.
        client: the client's name.
        share: its weight in the server's mean, which encryption has to apply before it seals.

    Returns:
        The record as the server sees it, what stays with the client, and the mean training loss.

    Raises:
        Misconfigured: the training is set for another number of images.
        Unsupported: the network cannot be trained so, or not under this defence.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> import fluoroscope as fl
        >>> network = fl.Network.of(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), (1, 4, 4))
        >>> batch = fl.PrivateBatch(torch.rand(2, 1, 4, 4), torch.tensor([0, 1]), ("anna", "ben"))
        >>> training = fl.LocalTraining(fl.Sgd(0.1), images=2, batch_size=2)
        >>> done = fl.client_round(network, network.build().state_dict(), batch, training, fl.generator(0))
        >>> sorted(done.record.arrays)
        ['1.bias', '1.weight']
    """
    if training.images != len(batch):
        raise Misconfigured(f"the training is set for {training.images} images, and {client} has {len(batch)}.")
    model = blueprint(network)
    before = with_local_state(state, local_state or {})
    if defence.training is None:
        trained = local_training(model, before, batch, training, rng)
        after, loss = trained.state, trained.loss
    else:
        after, loss = defence.training.train(model, before, batch, training, rng)
    # A defence sees the client's own way: from where it really began, with what it had kept.
    made = UpdateRecord.between(network, before, after, training, round=server_round, client=client)
    draws = rng if defence_rng is None else defence_rng
    record = defence.before_encryption().send(made, draws)
    sealed: list[str] = []
    ciphertexts: list[bytes] = []
    if defence.encryption is not None:
        sealed, ciphertexts = defence.encryption.sealed(record), defence.encryption.encrypt(record, share)
        record = defence.encryption.send(record, draws)
    record = replace(
        record,
        state_before={name: state[name] for name in made.state_before},
        buffers_before={name: state[name] for name in made.buffers_before},
        claim=defence.claim(Participation(training, rounds=1, open_buffers=buffers_moved(record))),
    )
    left = {*record.state_after, *(record.buffers_after or {}), *sealed}
    kept = {name: value for name, value in after.items() if name not in left}
    return ClientRound(record, kept, loss, tuple(ciphertexts))


def buffers_moved(record: UpdateRecord) -> bool:
    """Whether what was sent beside the update has changed; a counter of batches tells nothing of the images."""
    return any(
        value.is_floating_point() and not torch.equal(value, record.buffers_before[name])
        for name, value in (record.buffers_after or {}).items()
    )


def with_local_state(state: State, own: State) -> dict[str, Tensor]:
    """The received model with the client's own part put in."""
    return {name: own[name].to(value) if name in own else value for name, value in state.items()}

"""What leaves a client in a round, and what a defence promises about it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.types.network import Network, Shape, blueprint
from fluoroscope.types.training import LocalTraining

State = Mapping[str, Tensor]
"""Tensors by name, as in a state dict."""
Relation = Literal["add or remove", "replace", "zero-out"]
"""Two data sets are neighbours where one has a unit more; where a unit is another; or where a unit adds nothing, while
their number stays: what depends on that number is the same for both (zero-out, Kairouz et al. 2021)."""


@dataclass(frozen=True)
class PrivacyClaim:
    """What a defence promises, or plainly that it promises nothing."""

    epsilon: float | None = None
    delta: float | None = None
    unit: Literal["record", "patient", "client"] | None = None
    statement: str = "not differential privacy"
    relation: Relation | None = None
    """The neighbouring relation: which two data sets epsilon cannot tell apart."""
    trust: Literal["local", "central"] | None = None
    """local holds against the server too (local DP); central trusts it with every update (central DP)."""


NO_CLAIM = PrivacyClaim(statement="no defence: not differential privacy")


@dataclass(frozen=True, eq=False)
class UpdateRecord:
    """What left one client in one round, next to what the server had sent it."""

    round: int
    cohort: tuple[str, ...]
    """One client's name, or all those whose updates were summed before anyone saw them."""
    network: Network
    training: LocalTraining
    state_before: State
    """The global parameters that the round started from."""
    state_after: State
    """The parameters as they were sent back."""
    buffers_before: State = field(default_factory=dict)
    buffers_after: State | None = None
    """BatchNorm statistics as they were sent back; None where they stayed at home."""
    claim: PrivacyClaim = NO_CLAIM

    @classmethod
    def between(
        cls,
        network: Network | nn.Module,
        before: State,
        after: State,
        training: LocalTraining,
        *,
        input_shape: Shape | None = None,
        round: int = 1,
        client: str = "client",
        claim: PrivacyClaim = NO_CLAIM,
    ) -> "UpdateRecord":
        """The record of a client that was sent `before` and sent back `after`: any two state dicts.

        Args:
            network: a `Network`, or a module of your own together with `input_shape`.
            before: the global model's state dict; every parameter and buffer of the network.
            after: what the client sent: all of it, or less where something stayed at home.
            training: how the client trained.
            input_shape: channels, height and width of an image, for a module.
            round: the round's number.
            client: the client's name.
            claim: what a defence promised about this update.

        Raises:
            BadInput: an array is missing, unknown or of another shape.
            Misconfigured: a module was given without `input_shape`.

        Example:
            >>> import torch
            >>> from torch import nn
            >>> from fluoroscope import LocalTraining, Sgd, UpdateRecord
            >>> model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
            >>> before = {name: value.clone() for name, value in model.state_dict().items()}
            >>> after = {name: value + 0.1 for name, value in before.items()}
            >>> record = UpdateRecord.between(
            ...     model, before, after, LocalTraining(Sgd(0.1), images=1, batch_size=1), input_shape=(1, 4, 4)
            ... )
            >>> round(float(record.arrays["1.bias"][0]), 3)
            0.1
        """
        if isinstance(network, nn.Module):
            if input_shape is None:
                raise Misconfigured("a module of your own needs input_shape=(channels, height, width).")
            network = Network.of(network, input_shape)
        module = blueprint(network)
        shapes = {name: value.shape for name, value in module.state_dict().items()}
        buffers = {name for name, _ in module.named_buffers()}
        if missing := [name for name in shapes if name not in before]:
            raise BadInput(f"the state before the round lacks {missing[0]!r} of {network.name}.")
        for which, state in (("before", before), ("after", after)):
            for name, value in state.items():
                if name not in shapes:
                    raise BadInput(f"the state {which} the round has {name!r}, and {network.name} has no such array.")
                if value.shape != shapes[name]:
                    raise BadInput(
                        f"the state {which} the round has {name!r} of shape {tuple(value.shape)}, and {network.name} "
                        f"has {tuple(shapes[name])}."
                    )
        training.check_frozen(name for name, _ in module.named_parameters())
        state_before, buffers_before = split_state({name: _single(before[name]) for name in shapes}, buffers)
        sent = {name: _single(after[name]) for name in shapes if name in after}
        state_after, buffers_after = split_state(sent, buffers)
        return cls(
            round=round,
            cohort=(client,),
            network=network,
            training=training,
            state_before=state_before,
            state_after=state_after,
            buffers_before=buffers_before,
            buffers_after=buffers_after if buffers_after or not buffers else None,
            claim=claim,
        )

    @property
    def arrays(self) -> dict[str, Tensor]:
        """The update: the change of every parameter."""
        return {name: after - self.state_before[name] for name, after in self.state_after.items()}


@dataclass(frozen=True, eq=False)
class RoundView:
    """What a participant sees of a round: the model that came of it, and what the server tells of it."""

    round: int
    network: Network
    state: State
    """The global parameters and buffers after the round."""
    metrics: Mapping[str, float]
    """Aggregated over the clients' own test images: loss, accuracy."""


def split_state(state: State, buffers: Collection[str]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters of a state, and its buffers, which are named.

    Example:
        >>> from torch import nn
        >>> parameters, buffers = split_state(nn.BatchNorm1d(2, affine=False).state_dict(), {"running_mean"})
        >>> list(parameters), list(buffers)
        (['running_var', 'num_batches_tracked'], ['running_mean'])
    """
    parameters = {name: value for name, value in state.items() if name not in buffers}
    return parameters, {name: value for name, value in state.items() if name in buffers}


def _single(value: Tensor) -> Tensor:
    """In single precision: a difference of halves would lose what is looked for."""
    value = value.detach()
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value

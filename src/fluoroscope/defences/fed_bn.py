"""FedBN (Li et al. 2021; P1 section IV): what BatchNorm learns stays with the client."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from fluoroscope.defences.contract import Participation
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.errors import Misconfigured
from fluoroscope.types import PrivacyClaim, UpdateRecord

STATISTICS = ".running_mean"


@DEFENCES.register("fed-bn")
@dataclass(frozen=True)
class FedBn:
    """FedBN: neither BatchNorm's statistics nor its scale and shift are sent (Li et al. 2021).

    Example:
        >>> import torch
        >>> from torch import nn
        >>> import fluoroscope as fl
        >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))
        >>> state = model.state_dict()
        >>> training = fl.LocalTraining(fl.Sgd(0.1), images=1, batch_size=1)
        >>> record = fl.UpdateRecord.between(model, state, state, training, input_shape=(1, 4, 4))
        >>> sorted(fl.FedBn().send(record, fl.generator(0)).arrays)
        ['0.bias', '0.weight', '3.bias', '3.weight']
    """

    parameters: bool = True
    """False is less than FedBN: only the statistics stay with the client; scale and shift are sent and averaged."""
    withholds_statistics: ClassVar[bool] = True

    def claim(self, participation: Participation) -> PrivacyClaim:
        if self.parameters:
            return PrivacyClaim(statement="not differential privacy: all but BatchNorm is sent as it is")
        told = "not differential privacy: all but BatchNorm's statistics is sent as it is, its scale and shift too"
        return PrivacyClaim(statement=told)

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        layers = {name.removesuffix(STATISTICS) for name in record.buffers_before if name.endswith(STATISTICS)}
        if not layers:
            raise Misconfigured(
                f"fed-bn has nothing to withhold: {record.network.name} has no BatchNorm statistics. Leave "
                "the defence out, or choose a model with BatchNorm, such as resnet18."
            )
        kept = {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")} if self.parameters else set()
        after = {name: value for name, value in record.state_after.items() if name not in kept}
        return replace(record, state_after=after, buffers_after=None)

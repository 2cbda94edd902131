"""FedBN (Li et al. 2021; P1 section IV): what BatchNorm learns stays at home."""

from dataclasses import dataclass, replace

import torch

from fluoroscope.defences.contract import Participation
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.errors import Misconfigured
from fluoroscope.types import PrivacyClaim, UpdateRecord

STATISTICS = ".running_mean"


@DEFENCES.register("fed-bn")
@dataclass(frozen=True)
class FedBn:
    """The statistics are not sent; with `parameters`, as in FedBN proper, neither are scale and shift."""

    parameters: bool = False

    def claim(self, participation: Participation) -> PrivacyClaim:
        return PrivacyClaim(statement="not differential privacy: the rest of the update is sent as it is")

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        layers = {name.removesuffix(STATISTICS) for name in record.buffers_before if name.endswith(STATISTICS)}
        if not layers:
            raise Misconfigured(
                f"fed-bn has nothing to keep at home: {record.network.name} has no BatchNorm statistics. Leave "
                "the defence out, or choose a model with BatchNorm, such as resnet18."
            )
        kept = {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")} if self.parameters else set()
        after = {name: value for name, value in record.state_after.items() if name not in kept}
        return replace(record, state_after=after, buffers_after=None)

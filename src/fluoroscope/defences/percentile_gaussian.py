"""P1's noise on an outgoing update (spec section 4)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fluoroscope.defences.contract import Participation
from fluoroscope.defences.range_checks import at_least, between
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.types import PrivacyClaim, State, UpdateRecord


@DEFENCES.register("percentile-gaussian")
@dataclass(frozen=True)
class PercentileGaussian:
    """dW + N(0, s) with s = noise_scale * percentile(|dW|, percentile); s is a standard deviation.

    BatchNorm's statistics leave with the update and are noised like the rest of it: without that, they alone would
    still give the image away.

    Example:
        >>> PercentileGaussian(noise_scale=50).noise_scale
        50
    """

    noise_scale: float
    """P1's sigma_0: the noise's standard deviation in units of that percentile."""
    percentile: float = 95.0
    OLD_NAMES: ClassVar[Mapping[str, str]] = {"sigma0": "noise_scale"}

    def __post_init__(self) -> None:
        at_least("noise_scale", self.noise_scale, 0)
        between("percentile", self.percentile, 0, 100)

    def claim(self, participation: Participation) -> PrivacyClaim:
        return PrivacyClaim(statement="not differential privacy: the size of the noise depends on the data")

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        if not self.noise_scale:
            return record
        buffers = {name: v for name, v in (record.buffers_after or {}).items() if v.is_floating_point()}
        changes = record.arrays | {name: after - record.buffers_before[name] for name, after in buffers.items()}
        sizes = np.concatenate([change.abs().flatten().cpu().numpy() for change in changes.values()])
        deviation = self.noise_scale * float(np.percentile(sizes, self.percentile))

        def noisy(state: State) -> dict[str, Tensor]:
            return {name: v + deviation * torch.randn(v.shape, generator=rng).to(v.device) for name, v in state.items()}

        after = None
        if record.buffers_after is not None:  # a variance stays one
            drawn = {n: v.clamp_min(0) if n.endswith("running_var") else v for n, v in noisy(buffers).items()}
            after = {**record.buffers_after, **drawn}
        return replace(record, state_after=noisy(record.state_after), buffers_after=after)

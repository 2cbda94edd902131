"""P1's noise on an outgoing update (spec section 4)."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fluoroscope.types import State, UpdateRecord

PERCENTILE = 95


def noised(record: UpdateRecord, sigma0: float, rng: torch.Generator) -> UpdateRecord:
    """dW + N(0, s) with s = sigma0 * percentile(|dW|, 95); s is a standard deviation.

    BatchNorm's statistics leave with the update and are noised like the rest of it: without that, they alone would
    still give the image away.
    """
    if not sigma0:
        return record
    buffers = {name: v for name, v in (record.buffers_after or {}).items() if v.is_floating_point()}
    changes = record.arrays | {name: after - record.buffers_before[name] for name, after in buffers.items()}
    sizes = np.concatenate([change.abs().flatten().numpy() for change in changes.values()])
    deviation = sigma0 * float(np.percentile(sizes, PERCENTILE))

    def noisy(state: State) -> dict[str, Tensor]:
        return {name: v + deviation * torch.randn(v.shape, generator=rng) for name, v in state.items()}

    after = None if record.buffers_after is None else {**record.buffers_after, **noisy(buffers)}
    return replace(record, state_after=noisy(record.state_after), buffers_after=after)

"""What an update shows, as one vector per kind of evidence: small enough to keep for hundreds of simulated clients."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fluoroscope.rng import generator
from fluoroscope.types import Observation, State

WHOLE = 4096
"""Arrays up to this many values are kept as they are."""
BUCKETS = 512
"""Values that stand for a larger one."""
STATISTICS, CHANGES, SIZES = "statistics", "changes", "sizes"


@dataclass(frozen=True, eq=False)
class Evidence:
    """Reads updates of one shape. Large arrays are count-sketched (Charikar, Chen and Farach-Colton 2002): every value
    is added with a random sign to a random bucket, which keeps inner products in the mean."""

    shapes: Mapping[str, tuple[int, ...]]
    """Of the changed parameters that are seen."""
    buffers: Mapping[str, int]
    """BatchNorm statistics that are seen, with their number of values."""

    @classmethod
    def of(cls, observation: Observation) -> "Evidence":
        """For all that this observation shows."""
        update, after = observation.update or {}, observation.buffers_after or {}
        return cls(
            {name: tuple(value.shape) for name, value in update.items()},
            {name: value.numel() for name, value in after.items() if value.is_floating_point()},
        )

    def read(self, observation: Observation) -> dict[str, Tensor]:
        """A vector per kind of evidence; a kind of which nothing is seen is left out."""
        found = {}
        if self.buffers:
            found[STATISTICS] = self.statistics(observation)
        if self.shapes:
            update = observation.update or {}
            found[CHANGES] = torch.cat([self._short(name, update[name]) for name in self.shapes])
        return found | {SIZES: self.sizes(observation)}

    def sizes(self, observation: Observation) -> Tensor:
        """The logarithm of every array's norm. Noise that is scaled by the update gives away the update's size."""
        changes = [(observation.update or {})[name] for name in self.shapes]
        if self.buffers:
            changes.append(self.statistics(observation))
        norms = [torch.linalg.vector_norm(change.detach(), dtype=torch.float64).cpu() for change in changes]
        return torch.stack(norms).clamp_min(1e-30).log()

    def statistics(self, observation: Observation) -> Tensor:
        """The changes of BatchNorm's running statistics."""
        before, after = _seen(observation.buffers_before), _seen(observation.buffers_after)
        return torch.cat([(after[name] - before[name]).flatten().cpu() for name in self.buffers])

    def columns(self, buffers: Iterable[str]) -> Tensor:
        """Where the values of these buffers stand among the statistics."""
        ends = dict(zip(self.buffers, torch.tensor(list(self.buffers.values())).cumsum(0).tolist(), strict=True))
        return torch.cat([torch.arange(ends[name] - self.buffers[name], ends[name]) for name in buffers])

    def _short(self, name: str, change: Tensor) -> Tensor:
        flat = change.detach().flatten().cpu()
        if len(flat) <= WHOLE:
            return flat
        buckets, signs = self._sketches[name]
        return flat.new_zeros(BUCKETS).index_add_(0, buckets, flat * signs)

    @cached_property
    def _sketches(self) -> dict[str, tuple[Tensor, Tensor]]:
        found = {}
        for name, shape in self.shapes.items():
            if (size := torch.Size(shape).numel()) > WHOLE:
                rng = generator(0, "sketch", name)
                buckets = torch.randint(BUCKETS, (size,), generator=rng, dtype=torch.int32)
                found[name] = (buckets, torch.randint(2, (size,), generator=rng, dtype=torch.int8) * 2 - 1)
        return found


def _seen(state: State | None) -> State:
    assert state is not None  # an Evidence of buffers reads observations that have them
    return state

"""How far what is seen of a client lies from what its images should give: learned from rounds that were simulated."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """seen = expected + bias + noise, with a deviation per value that grows with the size of the update.

    A defence may scale its noise by the update itself, as P1's does: then the size of what is seen tells how much noise
    is in it. How far it does is the slope of a straight line between their logarithms.
    """

    bias: Tensor
    """(values,)."""
    deviation: Tensor
    """(values,), of an update of size 1."""
    floor: Tensor
    """(values,): a share of what differs between images, below which nothing needs to agree."""
    slope: float
    offset: float

    @classmethod
    def of(cls, seen: Tensor, expected: Tensor, sizes: Tensor, floor: float) -> "NoiseModel":
        """From (clients, values) that were seen and that were expected, and (clients,) sizes of the whole updates."""
        seen, expected = seen.double(), expected.double()
        apart = seen - expected
        bias = apart.mean(0)
        noise = apart - bias
        usual = noise.square().mean(0).sqrt().clamp_min(1e-30)
        each = (noise / usual).square().mean(1).clamp_min(1e-30).log() / 2
        size = sizes.double().clamp_min(1e-30).log()
        spread = (size - size.mean()).square().sum()
        slope = float(((each - each.mean()) * (size - size.mean())).sum() / spread) if spread > 0 else 0.0
        offset = float(each.mean() - slope * size.mean())
        factor = (slope * size + offset).exp()
        deviation = (noise / factor[:, None]).square().mean(0).sqrt()
        return cls(bias, deviation, floor * expected.std(0), slope, offset)

    def deviations(self, sizes: Tensor) -> Tensor:
        """(clients, values): of the noise in updates of these sizes."""
        factor = (self.slope * sizes.double().clamp_min(1e-30).log() + self.offset).exp()
        both = ((factor[:, None] * self.deviation).square() + self.floor.square()).sqrt()
        return both.clamp_min(float(both.max()) * 1e-9 or 1e-30)

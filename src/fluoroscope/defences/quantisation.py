"""Updates in few bits, rounded at random so that the mean stays right (QSGD, Alistarh et al. 2017)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fluoroscope.defences.contract import Participation, sent
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.errors import Misconfigured
from fluoroscope.types import PrivacyClaim, UpdateRecord


@DEFENCES.register("quantisation")
@dataclass(frozen=True)
class Quantisation:
    """`bits` per number: each array's changes on 2^bits - 1 levels, even between minus and plus its largest.

    Example:
        >>> Quantisation(bits=1)
        Traceback (most recent call last):
        fluoroscope.errors.Misconfigured: bits must lie in 2..16, not 1.
    """

    bits: int

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 16:
            raise Misconfigured(f"bits must lie in 2..16, not {self.bits}.")

    def claim(self, participation: Participation) -> PrivacyClaim:
        return PrivacyClaim(statement="not differential privacy: the levels depend on the data")

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        return replace(record, state_after=sent(record, {n: self._rounded(v, rng) for n, v in record.arrays.items()}))

    def _rounded(self, change: Tensor, rng: torch.Generator) -> Tensor:
        step = change.abs().max() / (2 ** (self.bits - 1) - 1)
        if not step:
            return change
        at_random = torch.rand(change.shape, generator=rng).to(change.device)
        rounded: Tensor = torch.floor(change / step + at_random) * step
        return rounded

"""Gradient pruning (Zhu et al. 2019, section 5.2): small changes are not sent."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fluoroscope.defences.contract import Participation, sent
from fluoroscope.defences.range_checks import between
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.types import PrivacyClaim, UpdateRecord


@DEFENCES.register("pruning")
@dataclass(frozen=True)
class Pruning:
    """Of each array's changes the smallest are set to 0, a fraction of `sparsity`.

    Example:
        >>> Pruning(sparsity=0.9)
        Pruning(sparsity=0.9)
        >>> Pruning(sparsity=1.5)
        Traceback (most recent call last):
        fluoroscope.errors.Misconfigured: sparsity must be below 1, not 1.5.
    """

    sparsity: float
    """The fraction of zeros: 0 sends everything, 1 nothing."""
    OLD_NAMES: ClassVar[Mapping[str, str]] = {"share": "sparsity"}

    def __post_init__(self) -> None:
        between("sparsity", self.sparsity, 0, 1)

    def claim(self, participation: Participation) -> PrivacyClaim:
        return PrivacyClaim(statement="not differential privacy: nothing is random")

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        return replace(record, state_after=sent(record, {n: self._pruned(v) for n, v in record.arrays.items()}))

    def _pruned(self, change: Tensor) -> Tensor:
        kept = change.numel() - round(self.sparsity * change.numel())
        largest = change.abs().flatten().topk(kept).indices
        mask = torch.zeros(change.numel(), dtype=torch.bool, device=change.device).index_fill_(0, largest, True)
        return change * mask.reshape(change.shape)

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
        >>> import torch
        >>> from torch import nn
        >>> import fluoroscope as fl
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
        >>> before = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
        >>> after = {name: torch.linspace(0, 1, value.numel()).view_as(value) for name, value in before.items()}
        >>> training = fl.LocalTraining(fl.Sgd(0.1), images=1, batch_size=1)
        >>> record = fl.UpdateRecord.between(model, before, after, training, input_shape=(1, 4, 4))
        >>> coarse = fl.Quantisation(bits=2).send(record, fl.generator(0))
        >>> len(coarse.arrays["1.weight"].unique()) <= 3
        True
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

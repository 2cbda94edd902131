"""BatchNorm statistics, done exactly: what a client's buffers say about its batches (spec section 3.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fluoroscope.types import State


@dataclass(frozen=True, eq=False)
class Statistics:
    """Mean and *biased* variance of a layer's input over one batch: what the normalisation itself uses."""

    mean: Tensor
    var: Tensor
    count: int
    """Values a channel: images x height x width."""

    @property
    def unbiased(self) -> Tensor:
        """The variance as the running buffers take it in."""
        return self.var * (self.count / (self.count - 1))


def layer_names(model: nn.Module) -> list[str]:
    """The layers that keep running statistics."""
    return [name for name, module in model.named_modules() if isinstance(module, _BatchNorm)]


def recovered(before: State, after: State, layer: str, momentum: float, count: int) -> Statistics:
    """The statistics of the one batch between two states of the buffers: exact for one step (P1 eqs 3 and 4).

    s = (r_new - (1-m) r_old) / m; the running variance is unbiased, the normalisation is not.
    """

    def batch(buffer: str) -> Tensor:
        old, new = (state[f"{layer}.{buffer}"].double() for state in (before, after))
        return (new - (1 - momentum) * old) / momentum

    mean, unbiased = batch("running_mean"), batch("running_var")
    kind = after[f"{layer}.running_mean"].dtype
    return Statistics(mean.to(kind), (unbiased * ((count - 1) / count)).clamp_min(0).to(kind), count)


def propagated(before: State, layer: str, steps: Sequence[Statistics], momentum: float) -> tuple[Tensor, Tensor]:
    """The buffers after several steps: r_T = (1-m)^T r_0 + m sum_t (1-m)^(T-t) s_t. Differentiable in the steps."""
    mean, var = before[f"{layer}.running_mean"], before[f"{layer}.running_var"]
    for step in steps:
        mean = (1 - momentum) * mean + momentum * step.mean
        var = (1 - momentum) * var + momentum * step.unbiased
    return mean, var


def mismatch(ours: Statistics, theirs: Statistics) -> Tensor:
    """P1 eq. 5 for one layer: norms of the differences, not squared."""
    return (ours.mean - theirs.mean).norm() + (ours.var - theirs.var).norm()  # type: ignore[no-untyped-call]

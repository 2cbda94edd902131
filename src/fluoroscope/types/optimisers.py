"""A client's optimiser as data, as the configuration tells it; `federation/optimisers.py` takes the steps."""

from dataclasses import dataclass

from fluoroscope.errors import Misconfigured


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent, as torch.optim.SGD.

    Example:
        >>> Sgd(0.1, momentum=0.9, nesterov=True)
        Sgd(lr=0.1, momentum=0.9, weight_decay=0.0, nesterov=True)
    """

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        _check(self.lr, self.weight_decay)
        if not 0 <= self.momentum < 1:
            raise Misconfigured(f"momentum must be at least 0 and below 1, not {self.momentum}.")
        if self.nesterov and not self.momentum:
            raise Misconfigured("nesterov needs a momentum above 0.")


@dataclass(frozen=True)
class Adam:
    """Adam, as torch.optim.Adam: `weight_decay` enters the gradient.

    Example:
        >>> Adam(1e-3).betas
        (0.9, 0.999)
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check(self.lr, self.weight_decay)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise Misconfigured(f"betas must be at least 0 and below 1, not {self.betas}.")
        if not self.eps > 0:
            raise Misconfigured(f"eps must be above 0, not {self.eps}.")


@dataclass(frozen=True)
class AdamW(Adam):
    """AdamW, as torch.optim.AdamW: `weight_decay` shrinks the weights themselves.

    Example:
        >>> AdamW(1e-3).weight_decay
        0.01
    """

    weight_decay: float = 0.01


@dataclass(frozen=True)
class OneGradient:
    """No optimiser: the client sends the gradient of one batch as it is (FedSGD, DLG, P4).

    Example:
        >>> OneGradient().lr
        1.0
    """

    @property
    def lr(self) -> float:
        """The update is minus the gradient."""
        return 1.0


LocalOptimiser = Sgd | Adam | AdamW | OneGradient


def _check(lr: float, weight_decay: float) -> None:
    if not lr > 0:
        raise Misconfigured(f"lr must be above 0, not {lr}.")
    if not weight_decay >= 0:
        raise Misconfigured(f"weight_decay must be 0 or more, not {weight_decay}.")

"""How a client trains in one round."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from fluoroscope.errors import Misconfigured
from fluoroscope.types.losses import CrossEntropy, Loss
from fluoroscope.types.optimisers import LocalOptimiser, OneGradient


@dataclass(frozen=True)
class Normalisation:
    """What is done to pixels in [0, 1] before the network: (x - mean) / std, per channel.

    Example:
        >>> Normalisation(mean=(0.5,), std=(0.25,))
        Normalisation(mean=(0.5,), std=(0.25,))
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not self.mean:
            raise Misconfigured(
                f"normalisation needs as many deviations as means, one per channel: {self.mean} and {self.std}."
            )
        if not all(value > 0 for value in self.std):
            raise Misconfigured(f"normalisation: std must be above 0, not {self.std}.")

    def check_channels(self, channels: int) -> None:
        """Refuse images of another number of channels; one mean serves for all of them."""
        if len(self.mean) not in (1, channels):
            raise Misconfigured(
                f"normalisation has {len(self.mean)} means for images of {channels} channels; give one each."
            )


@dataclass(frozen=True)
class LocalTraining:
    """How a client trains in one round. All of it is in the configuration, so a curious server knows it.

    Args:
        optimiser: Sgd, Adam, AdamW, or OneGradient for a gradient that is sent as it is.
        images: how many images the client trains on.
        batch_size: images per step; the last batch of an epoch may be smaller.

    Raises:
        Misconfigured: a number is out of range, or two settings contradict each other.

    Example:
        >>> from fluoroscope import AdamW
        >>> LocalTraining(AdamW(1e-3), images=10, batch_size=4, epochs=2).steps
        6
    """

    optimiser: LocalOptimiser
    images: int
    batch_size: int
    epochs: int = 1
    loss: Loss = field(default_factory=CrossEntropy)
    batchnorm: Literal["train", "eval"] = "train"
    batchnorm_momentum: float = 0.1
    proximal_mu: float = 0.0
    """FedProx: weight of mu/2 ||w - w_global||^2 in the loss; 0 trains without it."""
    max_steps: int | None = None
    """Stops after this many steps, in the place of `epochs`: as many passes are begun as they need."""
    normalisation: Normalisation | None = None
    clip_norm: float | None = None
    """The L2 norm that each step's gradient is clipped to, over all parameters (torch's clip_grad_norm_)."""
    frozen: tuple[str, ...] = ()
    """Parameters that are not trained, as patterns of their names: `layer1.*`."""

    def __post_init__(self) -> None:
        for key in ("images", "batch_size", "epochs"):
            if getattr(self, key) < 1:
                raise Misconfigured(f"{key} must be at least 1, not {getattr(self, key)}.")
        if self.proximal_mu < 0:
            raise Misconfigured(f"proximal_mu must be 0 or more, not {self.proximal_mu}.")
        if self.max_steps is not None and self.max_steps < 1:
            raise Misconfigured(f"max_steps must be at least 1, not {self.max_steps}.")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise Misconfigured(f"clip_norm must be above 0, not {self.clip_norm}.")
        if isinstance(self.optimiser, OneGradient) and self.steps > 1:
            raise Misconfigured(
                f"one gradient is one step, and {self.images} images in batches of {self.batch_size} for "
                f"{self.epochs} epochs are {self.steps}: raise the batch size, or use Sgd."
            )

    @property
    def steps(self) -> int:
        """Optimiser steps in one round."""
        return self.max_steps or self.epochs * self._per_pass

    @property
    def passes(self) -> int:
        """How often the client begins to go through its images."""
        return -(-self.steps // self._per_pass)

    @property
    def _per_pass(self) -> int:
        return -(-self.images // self.batch_size)

    def trains(self, parameter: str) -> bool:
        """Whether this parameter is trained."""
        return not any(fnmatchcase(parameter, pattern) for pattern in self.frozen)

    def check_frozen(self, parameters: Iterable[str]) -> None:
        """Refuse a pattern that freezes nothing, and a network that is frozen whole."""
        names = list(parameters)
        for pattern in self.frozen:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise Misconfigured(f"frozen: no parameter is named {pattern!r}; there are {', '.join(names[:8])}, ...")
        if names and not any(self.trains(name) for name in names):
            raise Misconfigured(f"frozen = {list(self.frozen)} leaves nothing to train.")

"""The nouns of the house: frozen, and built from torch and the standard library only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import torch
from torch import Tensor

from fluoroscope.errors import BadInput, Misconfigured

State = Mapping[str, Tensor]
"""Tensors by name, as in a state dict."""


@dataclass(frozen=True, eq=False)
class PrivateBatch:
    """Patients' images with their labels. Only `data`, `federation` and `scores` ever see one."""

    images: Tensor
    """(n, channels, height, width), float32 in [0, 1]."""
    labels: Tensor
    """(n,), int64."""
    patients: tuple[str, ...]

    def __post_init__(self) -> None:
        n = len(self.images)
        if self.images.ndim != 4 or self.images.dtype != torch.float32:
            raise BadInput(
                f"images must be a float32 (n, channels, height, width) tensor, not {self.images.dtype} of shape "
                f"{tuple(self.images.shape)}."
            )
        if self.labels.shape != (n,) or len(self.patients) != n:
            raise BadInput(f"{n} images need {n} labels and patients, not {len(self.labels)} and {len(self.patients)}.")

    def __len__(self) -> int:
        return len(self.images)

    def subset(self, indices: Sequence[int]) -> "PrivateBatch":
        chosen = torch.as_tensor(indices, dtype=torch.int64)
        return PrivateBatch(self.images[chosen], self.labels[chosen], tuple(self.patients[i] for i in indices))


@dataclass(frozen=True)
class Skipped:
    """A file that was left out, and why: shown to the user, never dropped silently."""

    file: str
    reason: str


@dataclass(frozen=True, eq=False)
class ImageSet:
    """A data set as a source gives it: a batch of everything, and what is known about it."""

    name: str
    batch: PrivateBatch
    classes: tuple[str, ...]
    licence: str
    synthetic: bool = False
    """True for phantoms: nobody's image, so it may always be shown."""
    skipped: tuple[Skipped, ...] = ()
    sites: tuple[str, ...] = ()
    """The hospital that holds each image; empty where that is not known of every one."""

    def __post_init__(self) -> None:
        low, high = (float(v) for v in self.batch.images.aminmax()) if len(self) else (0.0, 1.0)
        if not (low >= 0.0 and high <= 1.0):  # also catches NaN
            raise BadInput(f"{self.name}: pixel values must lie in [0, 1], but run from {low:g} to {high:g}.")
        if len(self) and int(self.batch.labels.max()) >= len(self.classes):
            raise BadInput(f"{self.name}: label {int(self.batch.labels.max())} has no name; classes: {self.classes}.")
        if self.sites and len(self.sites) != len(self):
            raise BadInput(f"{self.name}: {len(self)} images need {len(self)} sites or none, not {len(self.sites)}.")

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def channels(self) -> int:
        return self.batch.images.shape[1]

    @property
    def size(self) -> int:
        return self.batch.images.shape[-1]


@dataclass(frozen=True)
class ClientSplit:
    """One client's share of an ImageSet, as indices into it."""

    name: str
    train: tuple[int, ...]
    validation: tuple[int, ...]
    batch_size: int | None = None
    """Where the split itself sets it, as P1 table II does; None leaves it to the training settings."""


@dataclass(frozen=True)
class Partition:
    """Who holds which image. Patients never sit on two sides, except where a paper shares them on purpose."""

    clients: tuple[ClientSplit, ...]
    test: tuple[int, ...]
    auxiliary: tuple[int, ...] = ()
    """The attacker's or the server's own images: public prior, P2's auxiliary set, P3's initial training."""


@dataclass(frozen=True)
class Front:
    """Dense layers that a server puts before the agreed network: pixels, neurons, pixels (P2 fig. 2)."""

    neurons: int
    activation: Literal["relu", "hardtanh"] = "relu"
    """hardtanh is Robbing the Fed's sparse variant: a neuron passes gradient for its own bin only."""
    ceiling: float = 1.0
    """Of the hard tanh."""
    gate: bool = False
    """The neurons meet in one more rectified unit, from which the image is made: P2's identical columns, as one."""


@dataclass(frozen=True)
class Architecture:
    """What to build: enough to make the same network anywhere."""

    name: str
    channels: int
    classes: int
    size: int
    weights: str | None = None
    """Path of a state dict to start from; None starts at the architecture's own initialisation."""
    front: Front | None = None
    """What a malicious server added; nothing that was agreed has one."""


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent, as torch.optim.SGD."""

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Adam:
    """Adam, as torch.optim.Adam."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8


@dataclass(frozen=True)
class LocalTraining:
    """How a client trains in one round. All of it is in the configuration, so a curious server knows it."""

    optimiser: Sgd | Adam
    images: int
    batch_size: int
    epochs: int = 1
    loss: Literal["cross-entropy"] = "cross-entropy"
    batchnorm: Literal["train", "eval"] = "train"
    batchnorm_momentum: float = 0.1
    proximal_mu: float = 0.0
    """FedProx: weight of mu/2 ||w - w_global||^2 in the loss; 0 trains without it."""

    def __post_init__(self) -> None:
        for key in ("images", "batch_size", "epochs"):
            if getattr(self, key) < 1:
                raise Misconfigured(f"{key} must be at least 1, not {getattr(self, key)}.")
        if self.optimiser.lr <= 0:
            raise Misconfigured(f"lr must be above 0, not {self.optimiser.lr}.")
        if self.proximal_mu < 0:
            raise Misconfigured(f"proximal_mu must be 0 or more, not {self.proximal_mu}.")

    @property
    def steps(self) -> int:
        """Optimiser steps in one round; the last batch of an epoch may be smaller."""
        return self.epochs * -(-self.images // self.batch_size)


@dataclass(frozen=True)
class PrivacyClaim:
    """What a defence promises, or plainly that it promises nothing."""

    epsilon: float | None = None
    delta: float | None = None
    unit: Literal["record", "patient", "client"] | None = None
    statement: str = "not differential privacy"


NO_CLAIM = PrivacyClaim(statement="no defence: not differential privacy")


@dataclass(frozen=True, eq=False)
class UpdateRecord:
    """What left one client in one round, next to what the server had sent it."""

    round: int
    cohort: tuple[str, ...]
    """One client's name, or all those whose updates were summed before anyone saw them."""
    architecture: Architecture
    training: LocalTraining
    state_before: State
    """The global parameters that the round started from."""
    state_after: State
    """The parameters as they were sent back."""
    buffers_before: State = field(default_factory=dict)
    buffers_after: State | None = None
    """BatchNorm statistics as they were sent back; None where they stayed at home."""
    claim: PrivacyClaim = NO_CLAIM

    @property
    def arrays(self) -> dict[str, Tensor]:
        """The update: the change of every parameter."""
        return {name: after - self.state_before[name] for name, after in self.state_after.items()}


class Capability(StrEnum):
    """One thing that an attacker may know. A threat model is a set of these."""

    ARCHITECTURE = "architecture"
    TRAINING = "training"
    """lr, batch size, epochs, number of images, loss: the training configuration."""
    GLOBAL_STATE = "global-state"
    """The global model that the round started from, its BatchNorm statistics included."""
    UPDATE = "update"
    """The parameters as they were sent back."""
    BUFFERS = "buffers"
    """The BatchNorm statistics as they were sent back."""
    PRIOR = "prior"
    """A public image of the same kind, such as the mean of a public set."""
    LABELS = "labels"
    """The true labels. Nobody has them by position: a study grants them, and its report says so."""


@dataclass(frozen=True)
class Knowledge:
    """A threat: where the attacker sits, and what that lets it know (spec section 1)."""

    position: Literal["server", "malicious server", "client"]
    capabilities: frozenset[Capability]

    def granted(self, *more: Capability) -> "Knowledge":
        return Knowledge(self.position, self.capabilities | set(more))

    def without(self, *less: Capability) -> "Knowledge":
        return Knowledge(self.position, self.capabilities - set(less))


@dataclass(frozen=True, eq=False)
class Observation:
    """The part of a record that the Knowledge grants. What it does not grant is None; the truth has no field."""

    knowledge: Knowledge
    round: int
    cohort: tuple[str, ...]
    architecture: Architecture | None = None
    training: LocalTraining | None = None
    state_before: State | None = None
    update: State | None = None
    """The change of every parameter."""
    buffers_before: State | None = None
    buffers_after: State | None = None
    public_mean: Tensor | None = None
    """(channels, height, width): the mean of public images of the same kind, P1's prior."""
    labels: Tensor | None = None
    """(images,), in no particular order."""


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Labelled images in an attacker's own hands: a shadow set, or candidates of whom it asks who trained on them."""

    images: Tensor
    """(n, channels, height, width)."""
    labels: Tensor
    """(n,)."""

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True, eq=False)
class RoundView:
    """What a participant sees of a round: the model that came of it, and what the server tells of it."""

    round: int
    architecture: Architecture
    state: State
    """The global parameters and buffers after the round."""
    metrics: Mapping[str, float]
    """Aggregated over the clients' own test images: loss, accuracy."""


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """An attacker's guess at the images behind an update."""

    images: Tensor
    """(images, channels, height, width); the order means nothing. In [0, 1] where the attack holds them to it."""
    labels: Tensor | None
    objective: float
    """The attack's own objective at this guess: what restarts are chosen by."""
    restarts: tuple[float, ...] = ()
    """The objective that each restart reached."""
    trace: tuple[float, ...] = ()
    """The objective by iteration, of the chosen restart; so are the fields below."""
    start: Tensor | None = None
    """The images that the attack began with."""
    last: Tensor | None = None
    """The images that it ended with; `images` are its best, by its own objective."""
    snapshots: Mapping[int, Tensor] = field(default_factory=dict)
    """The images after so many iterations, where they were asked for."""
    diverged: bool = False
    """Met a number that is not finite, and ended at its best."""
    nothing: str = ""
    """Why the update showed this attack nothing: then the images are what it had before, the prior."""

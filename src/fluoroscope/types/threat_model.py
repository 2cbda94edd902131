"""What an attacker may know, what it sees of a record for that, and what it makes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from torch import Tensor

from fluoroscope.types.images import LabelledImages
from fluoroscope.types.network import Network
from fluoroscope.types.records import State
from fluoroscope.types.training import LocalTraining


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
    PUBLIC_IMAGES = "public-images"
    """Public images of the same kind, on which whole rounds can be rehearsed."""
    DEFENCE = "defence"
    """The client's defences with their settings, not their random draws (Kerckhoffs)."""
    LABELS = "labels"
    """The true labels. Nobody has them by position: a study grants them, and its report says so."""


@dataclass(frozen=True)
class Knowledge:
    """A threat model: where the attacker sits, and what that lets it know."""

    position: Literal["server", "malicious server", "client"]
    capabilities: frozenset[Capability]

    def granted(self, *more: Capability) -> "Knowledge":
        return Knowledge(self.position, self.capabilities | set(more))

    def without(self, *less: Capability) -> "Knowledge":
        return Knowledge(self.position, self.capabilities - set(less))


class StackedDefences(Protocol):
    """What stands between a client and the server, as `defences.Chain` holds it."""

    @property
    def parts(self) -> tuple[Any, ...]: ...


@dataclass(frozen=True, eq=False)
class Observation:
    """The part of a record that the Knowledge grants. What it does not grant is None; the truth has no field."""

    knowledge: Knowledge
    round: int
    cohort: tuple[str, ...]
    network: Network | None = None
    training: LocalTraining | None = None
    state_before: State | None = None
    update: State | None = None
    """The change of every parameter."""
    buffers_before: State | None = None
    buffers_after: State | None = None
    public_mean: Tensor | None = None
    """(channels, height, width): the mean of public images of the same kind, P1's prior."""
    public_images: LabelledImages | None = None
    defence: StackedDefences | None = None
    """None where it is not known; no defence is a chain without parts."""
    labels: Tensor | None = None
    """(images,), in no particular order."""


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """An attacker's guess at the images behind an update.

    Example:
        >>> import torch
        >>> Reconstruction(torch.zeros(1, 1, 8, 8), labels=None, objective=0.5).nothing
        ''
    """

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

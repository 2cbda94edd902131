"""What a run's files say beside its tensors: the header of the run, and the manifest of each round."""

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import PlainValidator

from fluoroscope.federation.training_record import plain_training, read_training
from fluoroscope.models import Architecture, ImportedNetwork
from fluoroscope.types import LocalTraining, Network, PrivacyClaim

FORMAT = 1


@dataclass(frozen=True)
class ClientEntry:
    """What a round's manifest says of one client."""

    training: Annotated[LocalTraining, PlainValidator(read_training)]
    claim: PrivacyClaim
    loss: float | None
    """None where training diverged."""
    recorded: bool


@dataclass(frozen=True)
class CohortEntry:
    """What the server's defence did in a round."""

    noise: float
    """Standard deviation, of every parameter."""
    distance: float
    """How far apart the clients were. Computed from their updates: the server may know it, nobody else."""


@dataclass(frozen=True)
class RoundManifest:
    """One whole round, without its tensors."""

    round: int
    clients: dict[str, ClientEntry]
    validation: dict[str, dict[str, float | None]]
    """Utility of the new global model on each client's validation images; empty where it was not evaluated."""
    files: dict[str, str]
    """SHA-256 by file name."""
    cohort: CohortEntry | None = None
    """Where a defence stood at the server."""
    refused: dict[str, str] = field(default_factory=dict)
    """Whose reply was not what was agreed, and why: client or node by its name."""

    def __post_init__(self) -> None:
        for name, scored in self.validation.items():
            if "accuracy" not in scored:
                raise ValueError(f"the validation of {name} has no accuracy")

    @property
    def took_part(self) -> tuple[str, ...]:
        """Whose update left them in this round, used or refused."""
        late = (name for name, why in self.refused.items() if why.startswith("training: "))
        return (*self.clients, *(name for name in late if name not in self.clients))

    def plain(self) -> dict[str, Any]:
        """As data, for the manifest's file."""
        found = asdict(self)
        for name, entry in self.clients.items():
            found["clients"][name]["training"] = plain_training(entry.training)
        if not self.refused:  # a round of which nothing is to be told is written as it always was
            del found["refused"]
        return found

    @property
    def validation_accuracy(self) -> float | None:
        """P1's criterion for the best model: the plain mean over the clients."""
        scores = [scored["accuracy"] or 0.0 for scored in self.validation.values()]
        return sum(scores) / len(scores) if scores else None

    def aggregated(self, metric: str) -> float:
        """Over the clients' validation images, each weighing the same: what a server tells its clients."""
        scored = self.validation.values()
        values = [(each["images"] or 0, each[metric]) for each in scored]
        images = sum(count for count, _ in values)
        # A model that diverged has no such number, and neither has the mean.
        return sum(count * (math.nan if value is None else value) for count, value in values) / images


@dataclass(frozen=True)
class StoredNetwork:
    """A network as a header keeps it: a registered name, or the import path of a factory."""

    name: str
    channels: int
    classes: int
    size: int | tuple[int, int]
    weights: str | None = None
    """The file's name; where it lay is nobody's business."""
    factory: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, network: Network) -> "StoredNetwork":
        """What is needed to build it again."""
        channels, height, width = network.input_shape
        size = height if height == width else (height, width)
        if isinstance(network, ImportedNetwork):
            return cls(network.name, channels, network.outputs, size, None, network.path, network.arguments)
        weights = network.weights if isinstance(network, Architecture) else None
        return cls(network.name, channels, network.outputs, size, Path(weights).name if weights else None)

    def network(self) -> Network:
        """Built from it."""
        if self.factory is None:
            return Architecture(self.name, self.channels, self.classes, self.size, self.weights)
        height, width = (self.size, self.size) if isinstance(self.size, int) else self.size
        return ImportedNetwork(self.factory, self.arguments, (self.channels, height, width))


@dataclass(frozen=True)
class RunHeader:
    """What is true of the whole run."""

    plan: dict[str, Any]
    fingerprint: str
    data: str
    """Digest of the images, who holds them and the initial weights, which the plan only names."""
    architecture: StoredNetwork
    buffers: list[str]
    clients: list[str]
    versions: dict[str, str]
    threads: int
    """CPU threads: float sums depend on their number, so a run goes on with as many as it began with."""
    format: int = FORMAT

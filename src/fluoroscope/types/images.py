"""Images with their labels, and who holds which."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.errors import BadInput


@dataclass(frozen=True, eq=False)
class PrivateBatch:
    """Patients' images with their labels. Attacks never see one.

    Raises:
        BadInput: shapes or counts do not fit, or the images are not float32.

    Example:
        >>> import torch
        >>> import fluoroscope as fl
        >>> batch = fl.PrivateBatch(torch.rand(2, 1, 8, 8), torch.tensor([0, 1]), ("anna", "ben"))
        >>> len(batch)
        2
    """

    images: Tensor
    """(n, channels, height, width), float32 in [0, 1]."""
    labels: Tensor
    """(n,), int64: a class each. With several findings per image, (n, findings) in [0, 1]."""
    patients: tuple[str, ...]

    def __post_init__(self) -> None:
        n = len(self.images)
        if self.images.ndim != 4 or self.images.dtype != torch.float32:
            raise BadInput(
                f"images must be a float32 (n, channels, height, width) tensor, not {self.images.dtype} of shape "
                f"{tuple(self.images.shape)}."
            )
        if self.labels.ndim not in (1, 2) or len(self.labels) != n or len(self.patients) != n:
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
        if self.batch.labels.ndim == 1 and len(self) and int(self.batch.labels.max()) >= len(self.classes):
            raise BadInput(f"{self.name}: label {int(self.batch.labels.max())} has no name; classes: {self.classes}.")
        if self.sites and len(self.sites) != len(self):
            raise BadInput(f"{self.name}: {len(self)} images need {len(self)} sites or none, not {len(self.sites)}.")

    def __len__(self) -> int:
        return len(self.batch)

    def counts(self, indices: Iterable[int]) -> dict[str, int]:
        """How many of these images have each class, or each finding."""
        labels = self.batch.labels[list(indices)]
        found = labels.sum(0) if labels.ndim == 2 else torch.bincount(labels, minlength=len(self.classes))
        return {name: int(count) for name, count in zip(self.classes, found, strict=True)}

    @property
    def channels(self) -> int:
        return self.batch.images.shape[1]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        _, channels, height, width = self.batch.images.shape
        return channels, height, width

    @property
    def size(self) -> int:
        """The longer side."""
        return max(self.batch.images.shape[-2:])


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


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Labelled images in an attacker's own hands: public ones that it learns from, a shadow set, or candidates of whom
    it asks who trained on them.

    Example:
        >>> import torch
        >>> import fluoroscope as fl
        >>> len(fl.LabelledImages(torch.rand(3, 1, 8, 8), torch.tensor([0, 1, 1]), patients=("anna", "ben", "ben")))
        3
    """

    images: Tensor
    """(n, channels, height, width)."""
    labels: Tensor
    """(n,)."""
    patients: tuple[str, ...] = ()
    """Who is on each, so that what is learned from a patient is not tried on the same one; empty: each is another."""

    def __len__(self) -> int:
        return len(self.images)

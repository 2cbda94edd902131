"""What an optimisation attack does about the labels: optimise them, read them from the update, or know them."""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from fluoroscope.attacks.common.initialisation import Initialisation, Unit
from fluoroscope.attacks.gradient_inversion.labels import last_dense_layer, restored_counts, sign_label
from fluoroscope.errors import Unsupported
from fluoroscope.types import Capability, Observation, Sgd

CERTAIN = 50.0
"""A logit so far above the others that the soft label is the class itself."""


class LabelHandling(Protocol):
    """The logits that the labels start from, and whether they move."""

    @property
    def optimised(self) -> bool: ...

    @property
    def needs(self) -> frozenset[Capability]: ...

    def __call__(self, observation: Observation, order: list[str], classes: int, rng: torch.Generator) -> Tensor: ...


@dataclass(frozen=True)
class Optimised:
    """DLG, P1, P4: the logits of soft labels, which start at random and are optimised with the images."""

    start: Initialisation = field(default_factory=Unit)
    """P4 eq. 2 draws them as it draws the image, each vector scaled to [0, 1]."""
    optimised: bool = True
    needs: frozenset[Capability] = frozenset({Capability.TRAINING})

    def __call__(self, observation: Observation, order: list[str], classes: int, rng: torch.Generator) -> Tensor:
        assert observation.training is not None
        return self.start(observation, (observation.training.images, classes), rng)


@dataclass(frozen=True)
class Inferred:
    """iDLG for one image, restored counts for a batch: read from the last dense layer's update, and held."""

    optimised: bool = False
    needs: frozenset[Capability] = frozenset({Capability.TRAINING, Capability.UPDATE})

    def __call__(self, observation: Observation, order: list[str], classes: int, rng: torch.Generator) -> Tensor:
        return certain(_arranged(_read(observation, order, classes), observation, rng), classes)


@dataclass(frozen=True)
class Restored:
    """GradInversion's batch label restoration as a start: what was read of one image is sure, of a batch a guess.

    The counts of a batch follow from the model's mean prediction on it, which nobody knows before the images are there.
    """

    optimised: bool = True
    needs: frozenset[Capability] = frozenset({Capability.TRAINING, Capability.UPDATE})

    def __call__(self, observation: Observation, order: list[str], classes: int, rng: torch.Generator) -> Tensor:
        labels = _arranged(_read(observation, order, classes), observation, rng)
        return certain(labels, classes) if len(labels) == 1 else leaning(labels, classes)


@dataclass(frozen=True)
class Known:
    """The true labels, as a capability that a study grants and its report states."""

    optimised: bool = False
    needs: frozenset[Capability] = frozenset({Capability.LABELS, Capability.TRAINING})

    def __call__(self, observation: Observation, order: list[str], classes: int, rng: torch.Generator) -> Tensor:
        assert observation.labels is not None
        return certain(_arranged(observation.labels, observation, rng), classes)


@dataclass(frozen=True)
class Chosen:
    """DeepInversion: nobody's labels; every class in its turn."""

    optimised: bool = False
    needs: frozenset[Capability] = frozenset({Capability.TRAINING})

    def __call__(self, observation: Observation, order: list[str], classes: int, rng: torch.Generator) -> Tensor:
        assert observation.training is not None
        return certain(torch.arange(observation.training.images) % classes, classes)


def certain(labels: Tensor, classes: int) -> Tensor:
    """Logits of labels that are not in doubt."""
    return CERTAIN * torch.nn.functional.one_hot(labels, classes).float()


def leaning(labels: Tensor, classes: int) -> Tensor:
    """Logits that can still turn."""
    return torch.nn.functional.one_hot(labels, classes).float()


def _arranged(labels: Tensor, observation: Observation, rng: torch.Generator) -> Tensor:
    """In an order for the client's steps: nobody knows who came when, and sorted ones would give each step a class."""
    assert observation.training is not None
    if observation.training.steps == 1:
        return labels
    return labels[torch.randperm(len(labels), generator=rng).to(labels.device)]


def _read(observation: Observation, order: list[str], classes: int) -> Tensor:
    training, update = observation.training, observation.update
    assert training is not None
    assert update is not None
    remedy = "grant them with --grant labels, or choose an attack that optimises them, such as dlg."
    if not isinstance(training.optimiser, Sgd):
        raise Unsupported(
            f"labels cannot be read from an update by {type(training.optimiser).__name__}, which is no multiple of "
            f"a gradient: {remedy}"
        )
    # Of several steps, the mean gradient; exact for one.
    over = -training.optimiser.lr * training.steps
    gradients = {name: update[name] / over for name in order if name in update}
    weight, bias = last_dense_layer(gradients, classes)
    if training.images == 1:
        return torch.tensor([sign_label(weight, bias)])
    if bias is None:
        raise Unsupported(f"the labels of {training.images} images cannot be read without a bias: {remedy}")
    counts = restored_counts(bias.cpu(), training.images, torch.full((classes,), 1 / classes))
    return torch.repeat_interleave(torch.arange(classes), counts)

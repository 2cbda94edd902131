"""What an optimisation attack does about the labels: optimise them, read them from the update, or know them."""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from fluoroscope.attacks.common.gradients import gradient_of
from fluoroscope.attacks.common.initialisation import Initialisation, Unit
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.gradient_inversion.labels import last_dense_layer, restored_counts, sign_label
from fluoroscope.errors import Unsupported
from fluoroscope.types import Capability, CrossEntropy

CERTAIN = 50.0
"""A logit so far above the others that the soft label is the class itself."""


class LabelHandling(Protocol):
    """The logits (images, outputs) that the labels start from, and whether they move."""

    @property
    def optimised(self) -> bool: ...

    @property
    def needs(self) -> frozenset[Capability]: ...

    def __call__(self, setup: Setup, rng: torch.Generator) -> Tensor: ...


@dataclass(frozen=True)
class Optimised:
    """DLG, P1, P4: the logits of soft labels, which start at random and are optimised with the images."""

    start: Initialisation = field(default_factory=Unit)
    """P4 eq. 2 draws them as it draws the image, each vector scaled to [0, 1]."""
    optimised: bool = True
    needs: frozenset[Capability] = frozenset({Capability.TRAINING})

    def __call__(self, setup: Setup, rng: torch.Generator) -> Tensor:
        return self.start(setup.observation, (setup.training.images, setup.outputs), rng)


@dataclass(frozen=True)
class Inferred:
    """Label restoration: iDLG for one image, counts for a batch, read from the last dense layer's update, and held."""

    optimised: bool = False
    needs: frozenset[Capability] = frozenset({Capability.TRAINING, Capability.UPDATE})

    def __call__(self, setup: Setup, rng: torch.Generator) -> Tensor:
        return certain(_arranged(_read(setup), setup, rng), setup)


@dataclass(frozen=True)
class Restored:
    """GradInversion's batch label restoration as a start: what was read of one image is sure, of a batch a guess.

    The counts of a batch follow from the model's mean prediction on it, which nobody knows before the images are there.
    Where nothing can be read, as of several steps of Adam, they start at random.
    """

    optimised: bool = True
    needs: frozenset[Capability] = frozenset({Capability.TRAINING, Capability.UPDATE})

    def __call__(self, setup: Setup, rng: torch.Generator) -> Tensor:
        try:
            labels = _arranged(_read(setup), setup, rng)
        except Unsupported:  # nothing to start from: they are optimised all the same
            return Optimised()(setup, rng)
        return certain(labels, setup) if len(labels) == 1 else leaning(labels, setup)


@dataclass(frozen=True)
class Known:
    """The true labels, as a capability that a study grants and its report states."""

    optimised: bool = False
    needs: frozenset[Capability] = frozenset({Capability.LABELS, Capability.TRAINING})

    def __call__(self, setup: Setup, rng: torch.Generator) -> Tensor:
        labels = setup.observation.labels
        assert labels is not None  # in `needs`
        return certain(_arranged(labels, setup, rng), setup)


@dataclass(frozen=True)
class Chosen:
    """DeepInversion: nobody's labels; every class in its turn."""

    optimised: bool = False
    needs: frozenset[Capability] = frozenset({Capability.TRAINING})

    def __call__(self, setup: Setup, rng: torch.Generator) -> Tensor:
        return certain(torch.arange(setup.training.images) % setup.outputs, setup)


def certain(labels: Tensor, setup: Setup) -> Tensor:
    """Logits of labels that are not in doubt."""
    return CERTAIN * leaning(labels, setup)


def leaning(labels: Tensor, setup: Setup) -> Tensor:
    """Logits that can still turn."""
    there = labels.float() if labels.ndim == 2 else torch.nn.functional.one_hot(labels, setup.outputs).float()
    return 2 * there - 1 if setup.training.loss.multi_label else there


def _arranged(labels: Tensor, setup: Setup, rng: torch.Generator) -> Tensor:
    """In an order for the client's steps: nobody knows who came when, and sorted ones would give each step a class."""
    if setup.training.steps == 1:
        return labels
    return labels[torch.randperm(len(labels), generator=rng).to(labels.device)]


def _read(setup: Setup) -> Tensor:
    training, classes = setup.training, setup.outputs
    remedy = "Grant them with --grant labels, or choose an attack that optimises them, such as dlg."
    gradient = gradient_of(setup)
    if gradient is None:
        raise Unsupported(
            f"labels cannot be read from {training.steps} steps of {type(training.optimiser).__name__}, which are no "
            "multiple of a gradient.",
            remedy,
        )
    weight, bias = last_dense_layer(gradient, classes)
    if training.images == 1 and training.loss.multi_label and bias is not None:
        return (bias < 0)[None]  # of each output, sigmoid(z) - y: below 0 where the finding is there
    if not isinstance(training.loss, CrossEntropy):
        raise Unsupported("labels are read from cross-entropy's gradient, and this client's loss is another.", remedy)
    if training.images == 1:
        return torch.tensor([sign_label(weight, bias)])
    if bias is None:
        raise Unsupported(f"the labels of {training.images} images cannot be read without a bias.", remedy)
    counts = restored_counts(bias.cpu(), training.images, torch.full((classes,), 1 / classes))
    return torch.repeat_interleave(torch.arange(classes), counts)

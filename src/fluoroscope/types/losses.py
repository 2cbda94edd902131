"""A client's loss: on its own labels, and on the soft labels that an attacker guesses."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fluoroscope.errors import Misconfigured, Unsupported


class Loss(ABC):
    """The mean over a batch of outputs (n, outputs) against targets: classes (n,), or a number per output."""

    @abstractmethod
    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """One number, differentiable in the outputs and in soft targets."""

    @abstractmethod
    def per_image(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Each image's own loss, (n,): no image enters another's. Their mean need not be this loss, where it is
        weighed over the batch."""

    @abstractmethod
    def soft(self, logits: Tensor) -> Tensor:
        """Targets (n, outputs) from free numbers: what an attacker optimises in the place of labels."""

    @abstractmethod
    def pulled(self, soft: Tensor, cotangent: Tensor) -> Tensor:
        """A derivative with respect to `soft` as one with respect to its logits."""

    @property
    def multi_label(self) -> bool:
        """Whether every output is a label of its own."""
        return False


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """As torch's: of classes, perhaps weighed and smoothed. Targets may also be a probability per class.

    Weighed, the mean is over the weights of the images' own classes, as torch has it for classes. torch takes another
    mean for probabilities; here a certain probability and its class have the same loss.

    Raises:
        Misconfigured: a weight is below 0, or their number is not the number of classes.

    Example:
        >>> import torch
        >>> loss = CrossEntropy(class_weights=(1.0, 3.0), label_smoothing=0.1)
        >>> outputs, classes = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
        >>> torch.isclose(loss(outputs, classes), loss(outputs, torch.eye(2)))
        tensor(True)
    """

    class_weights: tuple[float, ...] | None = None
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if self.class_weights is not None and not (
            all(w >= 0 for w in self.class_weights) and sum(self.class_weights) > 0
        ):
            raise Misconfigured(f"class_weights must be 0 or more, and one above 0, not {self.class_weights}.")
        if not 0 <= self.label_smoothing < 1:
            raise Misconfigured(f"label_smoothing must be at least 0 and below 1, not {self.label_smoothing}.")

    @property
    def plain(self) -> bool:
        """Neither weighed nor smoothed."""
        return self.class_weights is None and not self.label_smoothing

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if self.plain or not targets.is_floating_point():
            return F.cross_entropy(outputs, targets, self._weights(outputs), label_smoothing=self.label_smoothing)
        each = self.per_image(outputs, targets)
        weights = self._weights(outputs)
        return each.sum() / (len(each) if weights is None else (targets * weights).sum())

    def per_image(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if not targets.is_floating_point():
            return F.cross_entropy(
                outputs, targets, self._weights(outputs), reduction="none", label_smoothing=self.label_smoothing
            )
        smooth = (1 - self.label_smoothing) * targets + self.label_smoothing / outputs.shape[1]
        return F.cross_entropy(outputs, smooth, self._weights(outputs), reduction="none")

    def soft(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1)

    def pulled(self, soft: Tensor, cotangent: Tensor) -> Tensor:
        return soft * (cotangent - (soft * cotangent).sum(-1, keepdim=True))

    def _weights(self, outputs: Tensor) -> Tensor | None:
        return _one_per_class(self.class_weights, outputs)


def _one_per_class(weights: tuple[float, ...] | None, outputs: Tensor) -> Tensor | None:
    if weights is None:
        return None
    if len(weights) != outputs.shape[1]:
        raise Misconfigured(f"class_weights has {len(weights)} numbers for {outputs.shape[1]} classes; give one each.")
    return outputs.new_tensor(weights)


class _PerOutput(Loss):
    """Every output is a label of its own, between 0 and 1."""

    def soft(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def pulled(self, soft: Tensor, cotangent: Tensor) -> Tensor:
        return soft * (1 - soft) * cotangent

    @property
    def multi_label(self) -> bool:
        return True


@dataclass(frozen=True)
class BinaryCrossEntropy(_PerOutput):
    """Several findings per image, as torch's BCEWithLogitsLoss: the mean over images and outputs.

    Example:
        >>> import torch
        >>> round(float(BinaryCrossEntropy()(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))), 4)
        0.6931
    """

    positive_weights: tuple[float, ...] | None = None
    """Of a finding that is there, against one that is not (torch's pos_weight)."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.per_image(outputs, targets).mean()

    def per_image(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if targets.shape != outputs.shape:
            raise Misconfigured(
                f"multi-label targets are a number per output, {tuple(outputs.shape)}, not {tuple(targets.shape)}: use "
                "cross-entropy for classes."
            )
        weights = _one_per_class(self.positive_weights, outputs)
        each = F.binary_cross_entropy_with_logits(outputs, targets.to(outputs), reduction="none", pos_weight=weights)
        return each.mean(1)


@dataclass(frozen=True)
class CustomLoss(Loss):
    """Any callable of outputs and targets that gives one number.

    An attacker guesses soft labels, a probability per class: a callable that takes classes only can be trained with
    and not inverted.

    Raises:
        Unsupported: it gives more than one number, or does not take the targets.

    Example:
        >>> import torch
        >>> focal = CustomLoss(lambda outputs, targets: ((1 - outputs.softmax(1)) ** 2 * targets).sum(1).mean())
        >>> float(focal(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]])))
        0.25
    """

    function: Callable[[Tensor, Tensor], Tensor]
    path: str | None = None
    """`package.module:function`, where it was found: what a record can keep of it."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        try:
            found = self.function(outputs, targets)
        except (RuntimeError, ValueError, TypeError, IndexError) as problem:
            raise Unsupported(
                f"the loss {self._name} does not take outputs {tuple(outputs.shape)} with targets "
                f"{tuple(targets.shape)} of {targets.dtype}: {problem}."
            ) from problem
        if not isinstance(found, Tensor) or found.numel() != 1:
            raise Unsupported(f"the loss {self._name} must give one number for a batch: return its mean.")
        return found.reshape(())

    def per_image(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.stack([self(outputs[i : i + 1], targets[i : i + 1]) for i in range(len(outputs))])

    def soft(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1)

    def pulled(self, soft: Tensor, cotangent: Tensor) -> Tensor:
        return CrossEntropy().pulled(soft, cotangent)

    @property
    def _name(self) -> str:
        return self.path or str(getattr(self.function, "__name__", type(self.function).__name__))

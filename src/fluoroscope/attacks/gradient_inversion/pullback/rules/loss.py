"""The client's loss as the last operation: its cotangent is 1, and it is differentiated by the labels as well."""

from typing import Protocol

import torch
from torch import Tensor

from fluoroscope.types import CrossEntropy, Loss


class LossRule(Protocol):
    """A loss at one batch's outputs and soft labels, and what its tangents are."""

    labels: Tensor
    loss: Tensor

    def backward(self) -> Tensor:
        """The outputs' cotangent."""
        ...

    def tangent_backward(self, dlogits: Tensor) -> tuple[Tensor, Tensor]:
        """The tangent of the outputs' cotangent, and the derivative of the loss's tangent by the labels."""
        ...


def loss_rule(loss: Loss, logits: Tensor, labels: Tensor) -> LossRule:
    """In closed form for plain cross-entropy, by autograd for any other: outputs are small."""
    if isinstance(loss, CrossEntropy) and loss.plain:
        return PlainCrossEntropy(logits, labels)
    return AnyLoss(loss, logits, labels)


class PlainCrossEntropy:
    """Mean cross-entropy against a probability per class; with an axis before the images, many batches' own."""

    def __init__(self, logits: Tensor, labels: Tensor) -> None:
        self.labels = labels
        self.log_p = torch.log_softmax(logits, -1)
        self.p = self.log_p.exp()
        self.mass = labels.sum(-1, keepdim=True)  # 1, unless an attack's free labels say otherwise
        self.images = labels.shape[-2]
        self.loss = -(labels * self.log_p).sum((-2, -1)) / self.images

    def backward(self) -> Tensor:
        return (self.p * self.mass - self.labels) / self.images

    def tangent_backward(self, dlogits: Tensor) -> tuple[Tensor, Tensor]:
        centred = dlogits - (self.p * dlogits).sum(-1, keepdim=True)  # the tangent of log p
        return self.p * centred * self.mass / self.images, -centred / self.images


class AnyLoss:
    """By autograd: with g = dL/dz, both results are derivatives of <g, dz>, by the outputs z and by the labels."""

    def __init__(self, loss: Loss, logits: Tensor, labels: Tensor) -> None:
        with torch.enable_grad():
            self._logits, self._labels = logits.detach().requires_grad_(), labels.detach().requires_grad_()
            value = loss(self._logits, self._labels)
            (self._cotangent,) = torch.autograd.grad(value, self._logits, create_graph=True)
        self.labels, self.loss = labels, value.detach()

    def backward(self) -> Tensor:
        return self._cotangent.detach()

    def tangent_backward(self, dlogits: Tensor) -> tuple[Tensor, Tensor]:
        if not self._cotangent.requires_grad:
            return torch.zeros_like(dlogits), torch.zeros_like(self.labels)
        to_logits, to_labels = torch.autograd.grad(
            self._cotangent, (self._logits, self._labels), dlogits, retain_graph=True, materialize_grads=True
        )
        return to_logits, to_labels

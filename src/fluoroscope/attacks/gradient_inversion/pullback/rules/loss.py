"""The client's loss: mean cross-entropy against a probability a class, and what its tangents are."""

import torch
from torch import Tensor


class CrossEntropy:
    """The last operation: its cotangent is 1, and it is differentiated with respect to the labels as well."""

    def __init__(self, logits: Tensor, labels: Tensor) -> None:
        self.labels = labels
        self.log_p = torch.log_softmax(logits, 1)
        self.p = self.log_p.exp()
        self.mass = labels.sum(1, keepdim=True)  # 1, unless an attack's free labels say otherwise
        self.loss = -(labels * self.log_p).sum() / len(labels)

    def backward(self) -> Tensor:
        """The logits' cotangent."""
        return (self.p * self.mass - self.labels) / len(self.labels)

    def tangent_backward(self, dlogits: Tensor) -> tuple[Tensor, Tensor]:
        """The tangent of the logits' cotangent, and the derivative of the loss's tangent by the labels."""
        centred = dlogits - (self.p * dlogits).sum(1, keepdim=True)  # the tangent of log p
        return self.p * centred * self.mass / len(self.labels), -centred / len(self.labels)

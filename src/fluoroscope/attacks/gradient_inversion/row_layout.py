"""From one problem's evaluation to that of many rows, and from images and labels to the vectors that engines move."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fluoroscope.attacks.common.descent import Evaluate
from fluoroscope.attacks.common.initialisation import Shape
from fluoroscope.attacks.common.setup import Setup

ObjectiveAndGradients = tuple[Tensor, Tensor, Tensor]
"""The objective, and its gradients with respect to the images and to the logits of the soft labels."""

RowEvaluate = Callable[[Tensor, Tensor, Tensor], ObjectiveAndGradients]
"""The same for the rows asked for: (images, logits, row numbers), each with the row as its first axis."""


class Evaluated(Protocol):
    """An objective as a function of images (n, channels, height, width) and logits (n, classes)."""

    def evaluate(self, images: Tensor, logits: Tensor) -> ObjectiveAndGradients: ...


class Client(Evaluated, Protocol):
    """One observation's objective."""

    @property
    def setup(self) -> Setup: ...


def one_by_one(clients: Sequence[Evaluated]) -> RowEvaluate:
    """For problems that fill the machine by themselves: each row by its own client, one after another."""

    def evaluate(images: Tensor, logits: Tensor, rows: Tensor) -> ObjectiveAndGradients:
        found = [clients[int(row)].evaluate(x, y) for x, y, row in zip(images, logits, rows, strict=True)]
        values, to_images, to_logits = zip(*found, strict=True)
        return torch.stack(values), torch.stack(to_images), torch.stack(to_logits)

    return evaluate


@dataclass(frozen=True, eq=False)
class Layout:
    """How a problem's images and, where they are optimised, label logits lie side by side in a row of x."""

    shape: Shape
    logits: Tensor
    """(rows, n, classes): where the labels start, or what they are."""
    optimised: bool
    pace: float = 1.0
    """In x stand the logits over this: a step in x moves them that many times as far."""

    def join(self, images: Tensor, logits: Tensor) -> Tensor:
        return torch.cat([images.flatten(1), logits.flatten(1) / self.pace], 1) if self.optimised else images.flatten(1)

    def images(self, x: Tensor) -> Tensor:
        pixels = x.shape[1] - (self.logits[0].numel() if self.optimised else 0)
        return x[:, :pixels].reshape(-1, *self.shape)

    def labels(self, x: Tensor, rows: Tensor) -> Tensor:
        """The logits in x, or those that are held."""
        if not self.optimised:
            return self.logits[rows]
        return self.pace * x[:, -self.logits[0].numel() :].reshape(-1, *self.logits.shape[1:])

    def project(self, x: Tensor, box: tuple[float, float] | None, grey: bool) -> Tensor:
        """The images into the box, and with `grey` their channels to their mean; labels know neither."""
        images = self.images(x)
        if grey:
            images = images.mean(-3, keepdim=True).expand_as(images)
        flat = (images if box is None else images.clamp(*box)).flatten(1)
        return torch.cat([flat, x[:, flat.shape[1] :]], 1)

    def over(self, evaluate: RowEvaluate) -> Evaluate:
        """The same as a function of x."""

        def flat(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
            values, to_images, to_logits = evaluate(self.images(x), self.labels(x, rows), rows)
            return values, self.join(to_images, to_logits * self.pace**2)  # join divides by it once

        return flat

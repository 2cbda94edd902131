"""The images that have given features: descent on the pixels."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fluoroscope.attacks.closed_form.span.target import Target


class Simulated(Protocol):
    """A client's network, normalised as it was."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of an image."""
        ...

    def features(self, images: Tensor, layer: str) -> tuple[Tensor, Tensor]:
        """What `layer` is given for the images whose features are known, and how far their statistics are off."""
        ...


@dataclass(frozen=True)
class Weights:
    """Against the mean over the images of their features' relative misfit."""

    statistics: float
    """Of the mean over the layers of the relative distance from what BatchNorm saw."""
    variation: float
    """Of the mean difference between neighbouring pixels."""
    colour: float
    """The same of the differences between colours, which change less than brightness does."""


class FeatureObjective:
    """All images of a client together, since BatchNorm's statistics are those of the batch: a row of pixels."""

    def __init__(self, client: Simulated, target: Target, weights: Weights) -> None:
        self._client, self._target, self._weights = client, target, weights

    def __call__(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Values and gradients of several guesses at all the images."""
        found = [self._one(guess) for guess in x]
        return torch.stack([value for value, _ in found]), torch.stack([gradient for _, gradient in found])

    def evaluate(self, images: Tensor, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Value and gradients at one guess at all the images; features know no labels."""
        value, gradient = self._one(images.flatten())
        return value, gradient.view_as(images), torch.zeros_like(logits)

    def misfits(self, images: Tensor) -> Tensor:
        """How far each image's features are from the target, relative to it."""
        with torch.no_grad():
            return self._target.misfit(self._client.features(images, self._target.layer)[0])

    def _one(self, guess: Tensor) -> tuple[Tensor, Tensor]:
        images = guess.detach().view(-1, *self._client.shape).requires_grad_()
        with torch.enable_grad():
            features, off = self._client.features(images, self._target.layer)
            value = self._target.misfit(features).mean() + self._weights.statistics * off
            value = value + self._weights.variation * variation(images)
            if images.shape[1] > 1:
                value = value + self._weights.colour * variation(images.diff(dim=1))
            (gradient,) = torch.autograd.grad(value, images)
        return value.detach(), gradient.flatten()


def variation(images: Tensor) -> Tensor:
    """Mean absolute difference of neighbouring pixels, down and across."""
    return images.diff(dim=2).abs().mean() + images.diff(dim=3).abs().mean()

"""A small convolutional network behind the linear inverter: it has seen how such guesses differ from images.

What is linear minimises the squared error, and is blurred. The network is trained on guesses at public images that were
held out, to make them more alike (SSIM); it is used only where it does so on patients that it has not seen either.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from fluoroscope.attacks.common.running import Kept, Observations, OnIteration, silent
from fluoroscope.attacks.learned.learning import NEEDS, Lesson, guessed, lessons
from fluoroscope.attacks.learned.ridge import Linear, guesses
from fluoroscope.attacks.registry import ATTACKS
from fluoroscope.errors import Unsupported
from fluoroscope.rng import seeded_globals
from fluoroscope.types import Capability, Observation, Reconstruction

WINDOW = 11
"""Pixels of SSIM's window."""
BATCH = 16
SQUARED_ERROR = 2.0
"""Its weight beside 1 - SSIM."""


@dataclass(frozen=True)
class DecoderInversion:
    """The linear inverter's guess, sharpened by a convolutional network."""

    needs: ClassVar[frozenset[Capability]] = NEEDS
    most: int = 8
    """Images that are told one by one; of a client with more, their mean alone."""
    epochs: int = 12
    channels: int = 24
    lr: float = 2e-3

    def run(
        self, observations: Observations, rng: Generator, on_iteration: OnIteration = silent, checkpoint: Kept = None
    ) -> list[Reconstruction]:
        """A guess for each observation."""
        asked = lessons("decoder", observations, rng, on_iteration, checkpoint, iterations=self.epochs)
        return guessed(asked, self._guesses)

    def check(self, observation: Observation) -> None:
        if observation.network is not None and min(observation.network.input_shape[1:]) < WINDOW:
            raise Unsupported(f"decoder needs images of at least {WINDOW} pixels.", "Use ridge.")

    def _guesses(self, lesson: Lesson) -> list[Reconstruction]:
        self.check(lesson.observations[0])
        linear = Linear.of(lesson, self.most)
        # A seed of its own, so that a guess does not depend on its neighbours.
        with seeded_globals(0):
            network, gained = self._trained(linear, lesson.report)
        images = linear.images(lesson)
        return guesses(_decoded(network, images) if gained else images, linear.ridge.error)

    def _trained(self, linear: Linear, report: Callable[[int], None]) -> tuple[nn.Module, bool]:
        """The network, and whether it made held-out guesses at patients that it has not seen more alike."""
        from monai.losses.ssim_loss import SSIMLoss  # takes seconds, and most attacks do without

        guessed, truth = linear.held_out(), linear.targets
        unseen = linear.folds == linear.folds.max()
        network = Sharpener(truth[~unseen].flatten(0, 1).mean(0), self.channels)
        optimiser = torch.optim.Adam(network.parameters(), self.lr)
        inputs, targets = (images[~unseen].flatten(0, 1) for images in (guessed, truth))
        alike = SSIMLoss(spatial_dims=2)
        for epoch in range(self.epochs):
            optimiser.param_groups[0]["lr"] = self.lr * (1 - epoch / self.epochs)
            for chosen in torch.split(torch.randperm(len(inputs)), BATCH):
                output = network(inputs[chosen])
                loss = alike(output, targets[chosen]) + SQUARED_ERROR * (output - targets[chosen]).square().mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            report(epoch)
        with torch.no_grad():
            before, after = guessed[unseen].flatten(0, 1), _decoded(network, guessed[unseen]).flatten(0, 1)
            right = truth[unseen].flatten(0, 1)
            gained = float(alike(after.clamp(0, 1), right)) < float(alike(before.clamp(0, 1), right))
        return network, gained


class Sharpener(nn.Module):
    """Adds to a guess what it lacks: four convolutions, which know the public mean and the height in the picture."""

    beside: Tensor

    def __init__(self, mean: Tensor, width: int) -> None:
        super().__init__()
        channels, height, _ = mean.shape
        rows = torch.linspace(-1, 1, height)[None, :, None].expand_as(mean[:1])
        self.register_buffer("beside", torch.cat([mean, rows]))
        last = nn.Conv2d(width, channels, 3, padding=1)
        nn.init.normal_(last.weight, std=1e-3)
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]  # a convolution has a bias unless told
        self.layers = nn.Sequential(
            nn.Conv2d(2 * channels + 1, width, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, width, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=2, dilation=2),
            nn.ReLU(),
            last,
        )

    def forward(self, guesses: Tensor) -> Tensor:
        added: Tensor = self.layers(torch.cat([guesses, self.beside.expand(len(guesses), -1, -1, -1)], 1))
        return guesses + added


@torch.no_grad()
def _decoded(network: nn.Module, images: Tensor) -> Tensor:
    """(clients, images, ...) as the network makes them."""
    decoded: Tensor = network(images.flatten(0, 1))
    return decoded.view_as(images)


ATTACKS.add("decoder", DecoderInversion())

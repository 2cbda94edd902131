"""Dense layers' inputs, unmixed: images where the layer is given pixels, else features that a regression decodes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.closed_form.dense.inputs import dense_inputs
from fluoroscope.attacks.closed_form.dense.layers import Dense, dense_layers
from fluoroscope.attacks.closed_form.span.completion import complete
from fluoroscope.attacks.common.gradients import first_step_of_adam, gradient_of
from fluoroscope.attacks.common.running import Kept, Observations, OnIteration, silent
from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.learned.feature_decoder import FeatureRegression
from fluoroscope.attacks.learned.views import drift, first_views
from fluoroscope.attacks.registry import ATTACKS
from fluoroscope.digest import digest
from fluoroscope.errors import Unsupported
from fluoroscope.federation.local_training import guessed_schedule
from fluoroscope.rng import generator
from fluoroscope.threat_models.needs import require
from fluoroscope.types import Adam, Capability, LabelledImages, Observation, Reconstruction

OUTSIDE = 0.15
"""Of its norm, what a source may have outside [0, 1] and still be an image: a mixture has far more."""


@dataclass(frozen=True)
class CocktailParty:
    """The images of a batch by independent components of a dense layer's gradient.

    Pixels do not move with the weights: of a dense layer on pixels any number of steps and epochs of SGD is read.
    """

    name: str = "cocktail-party"

    @property
    def needs(self) -> frozenset[Capability]:
        return SIMULATION | {Capability.UPDATE, Capability.PUBLIC_IMAGES}

    def check(self, observation: Observation) -> None:
        training = observation.training
        if training is not None and training.steps > 1 and isinstance(training.optimiser, Adam):
            raise Unsupported(
                "inputs are read from one step, or from several of SGD; this client ran "
                f"{training.steps} steps of {training.optimiser}.",
                "Use an optimisation attack, such as epochwise or inverting-gradients.",
            )

    def run(
        self, observations: Observations, rng: Generator, on_iteration: OnIteration = silent, checkpoint: Kept = None
    ) -> list[Reconstruction]:
        """A reconstruction per observation. It holds the images that were found, which may be fewer than there are."""
        for observation in observations:
            require(self.name, observation, sorted(self.needs))
            self.check(observation)
        seed = int(torch.randint(2**62, (), generator=rng))
        found = []
        for number, observation in enumerate(observations):
            found.append(_one(observation, generator(seed, digest(observation.update), self.name)))
            on_iteration(number, len(observations))
        return found


def _one(observation: Observation, rng: torch.Generator) -> Reconstruction:
    setup, public = Setup.of(observation), observation.public_images
    assert public is not None  # required above
    best = Reconstruction(public.images.mean(0, keepdim=True), None, math.inf, nothing=_nothing(setup))
    reached = []
    for layer, inputs in _read(setup, rng):
        if layer.pixels is not None:
            guess = _as_images(layer, inputs, setup, public)
        else:
            guess = _decoded(layer, inputs, setup, public, rng)
        reached.append(guess.objective)
        best = min(best, guess, key=lambda each: each.objective)
    if best.nothing:
        return best
    return Reconstruction(best.images, None, best.objective, restarts=tuple(reached), trace=tuple(reached))


def _read(setup: Setup, rng: torch.Generator) -> Iterator[tuple[Dense, Tensor]]:
    """What each dense layer shows of its inputs, the nearest to the pixels first, until one shows every image."""
    training = setup.training
    for layer in dense_layers(setup, rng):
        # What pixels give is the same at every epoch; features move with the weights, and each epoch shows others.
        views = training.images if layer.pixels else sum(len(part) for part in guessed_schedule(training))
        gradients = [_gradient(setup, f"{layer.name}.{part}", views) for part in ("weight", "bias")]
        if gradients[0] is None:
            continue
        inputs = dense_inputs(layer, gradients[0], gradients[1], views, rng)
        if inputs is not None and len(inputs):
            yield layer, inputs
            if len(inputs) >= training.images:
                return


def _gradient(setup: Setup, name: str, rank: int) -> Tensor | None:
    if name not in setup.update:
        return None
    if not isinstance(setup.training.optimiser, Adam):
        return (gradient_of(setup) or {})[name]
    reading = first_step_of_adam(setup)[name]
    return complete(reading, rank) if reading.value.ndim == 2 else None  # of a bias nothing makes up for what is hidden


def _as_images(layer: Dense, inputs: Tensor, setup: Setup, public: LabelledImages) -> Reconstruction:
    """Sources that are images, those that lie in [0, 1]; without a scale they are as bright as public ones."""
    assert layer.pixels is not None
    if _gradient(setup, f"{layer.name}.bias", 1) is None:
        typical = public.images.double().flatten(1).norm(dim=1).median()
        images = inputs.view(-1, *setup.network.input_shape) * typical
    else:
        images = layer.pixels.images(inputs, setup.network.input_shape)
    outside = (images - images.clamp(0, 1)).flatten(1).norm(dim=1) / images.flatten(1).norm(dim=1).clamp_min(1e-12)
    kept = outside <= OUTSIDE
    if not bool(kept.any()):
        return Reconstruction(public.images.mean(0, keepdim=True), None, math.inf, nothing=_nothing(setup))
    left = 1 - float((1 - outside[kept]).sum()) / setup.training.images
    return Reconstruction(images[kept].clamp(0, 1).float(), None, left)


def _decoded(
    layer: Dense, inputs: Tensor, setup: Setup, public: LabelledImages, rng: torch.Generator
) -> Reconstruction:
    """Features to images, by what the network makes of public ones."""
    if setup.training.passes > 1:
        inputs = first_views(inputs, setup.training.images, drift(setup, public.images, layer.name, rng))
    regression = FeatureRegression.learned(setup, public, layer.name, rng)
    left = 1 - min(1.0, len(inputs) / setup.training.images) * (1 - regression.unexplained)
    return Reconstruction(regression(inputs), None, left)


def _nothing(setup: Setup) -> str:
    return (
        f"no dense layer of this update of {setup.training.images} images shows their inputs: either it is noised, or "
        "every dense layer on one vector per image has as few rows as there are images."
    )


ATTACKS.add("cocktail-party", CocktailParty())

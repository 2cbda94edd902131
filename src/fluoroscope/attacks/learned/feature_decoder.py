"""Features in closed form, images by a decoder that was learned on public images.

The span attack's features are exact for batches and for several local steps. Its descent to pixels is not: it needs
the BatchNorm statistics of every single step. A regression from features to images needs none: it is fitted to what
the same network makes of public images in batches of the client's size.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fluoroscope.attacks.closed_form.span.client import Client, check_seen
from fluoroscope.attacks.closed_form.span.target import Target
from fluoroscope.attacks.common.running import Kept, Observations, OnIteration, silent
from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.learned.public_features import public_features
from fluoroscope.attacks.learned.ridge_regression import Ridge
from fluoroscope.attacks.learned.views import drift, first_views
from fluoroscope.attacks.registry import ATTACKS
from fluoroscope.digest import digest
from fluoroscope.rng import generator
from fluoroscope.threat_models.needs import require
from fluoroscope.types import Capability, LabelledImages, LocalTraining, Observation, Reconstruction

FOLDS = 5
FEATURES = "features"


@dataclass(frozen=True, eq=False)
class Units:
    """Features scaled to norm 1, since the span says nothing of their size, about the mean of those."""

    mean: Tensor

    @classmethod
    def of(cls, features: Tensor) -> "Units":
        return cls(F.normalize(features.double()).mean(0))

    def __call__(self, evidence: Tensor) -> Tensor:
        return F.normalize(evidence.double()) - self.mean


@dataclass(frozen=True, eq=False)
class FeatureRegression:
    """From one layer's features to images."""

    ridge: Ridge
    shape: tuple[int, int, int]

    @classmethod
    def learned(cls, setup: Setup, public: LabelledImages, layer: str, rng: torch.Generator) -> "FeatureRegression":
        """From what a client would see of the public images."""
        features = public_features(setup, public.images, layer, rng)
        scalings = {FEATURES: Units.of(features)}
        ridge = Ridge.fit({FEATURES: features}, scalings, public.images.flatten(1), _folds(public))
        return cls(ridge, setup.network.input_shape)

    @property
    def unexplained(self) -> float:
        """The share of the public images' variance that the features of other patients' images leave open."""
        return min(self.ridge.error, 1.0)

    def __call__(self, maps: Tensor) -> Tensor:
        return self.ridge.predict({FEATURES: maps.flatten(1)}).float().view(-1, *self.shape).clamp(0, 1)


@dataclass(frozen=True)
class FeatureDecoder:
    """The images whose features an update shows: those of the layer that promises most."""

    name: str = "feature-decoder"
    check = staticmethod(check_seen)

    @property
    def needs(self) -> frozenset[Capability]:
        return SIMULATION | {Capability.UPDATE, Capability.PUBLIC_IMAGES}

    def run(
        self, observations: Observations, rng: Generator, on_iteration: OnIteration = silent, checkpoint: Kept = None
    ) -> list[Reconstruction]:
        """A reconstruction per observation. It holds the images that were found, which may be fewer than there are."""
        for observation in observations:
            require(self.name, observation, sorted(self.needs))
        seed = int(torch.randint(2**62, (), generator=rng))
        found = []
        for number, observation in enumerate(observations):
            found.append(self._one(observation, generator(seed, digest(observation.update), self.name)))
            on_iteration(number, len(observations))
        return found

    def _one(self, observation: Observation, rng: torch.Generator) -> Reconstruction:
        setup, client, public = Setup.of(observation), Client(observation), observation.public_images
        assert public is not None  # required above
        best, images, reached = math.inf, None, []
        for target in _targets(client, setup, public, rng):
            regression = FeatureRegression.learned(setup, public, target.layer, rng)
            # What stays open of all images: those that were not found, and what their features do not say.
            left = 1 - len(target.maps) / setup.training.images * (1 - regression.unexplained)
            reached.append(left)
            if left < best:
                best, images = left, regression(target.maps)
        if images is None:
            return Reconstruction(public.images.mean(0, keepdim=True), None, math.inf, nothing=_nothing(setup.training))
        return Reconstruction(images, None, best, restarts=tuple(reached), trace=tuple(reached))


def _targets(client: Client, setup: Setup, public: LabelledImages, rng: torch.Generator) -> Iterator[Target]:
    """What single layers show, the nearest to the pixels first, until one shows every image."""
    for layer in client.readable:
        maps = client.maps(layer, rng)
        if len(maps) and setup.training.passes > 1:
            maps = first_views(maps, setup.training.images, drift(setup, public.images, layer.name, rng))
        if len(maps):
            yield client.further(layer, maps)
        if len(maps) == setup.training.images:
            return


def _folds(public: LabelledImages) -> Tensor:
    """(n,): all images of a patient in one fold."""
    patients = public.patients or tuple(str(number) for number in range(len(public)))
    numbers = {patient: number for number, patient in enumerate(dict.fromkeys(patients))}
    return torch.tensor([numbers[patient] % FOLDS for patient in patients])


def _nothing(training: LocalTraining) -> str:
    return (
        f"no layer of this update of {training.images} images in {training.steps} steps shows features to decode: "
        "either it is noised, or every convolution behind a ReLU has fewer channels than the images have positions."
    )


ATTACKS.add("feature-decoder", FeatureDecoder())

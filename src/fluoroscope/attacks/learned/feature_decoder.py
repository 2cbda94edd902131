"""Features in closed form, images by a decoder that was learned on public images.

The span attack's features are exact for batches and for several local steps. Its descent to pixels is not: it needs
the BatchNorm statistics of every single step. A regression from features to images needs none: it is fitted to what
the same network makes of public images in batches of the client's size. Where it is known which images shared a step,
a descent goes on from there (`feature_matching`), provided that it does on public images.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fluoroscope.attacks.closed_form.span.client import Client, check_seen
from fluoroscope.attacks.closed_form.span.pixels import Simulated
from fluoroscope.attacks.closed_form.span.simulated_steps import SimulatedSteps
from fluoroscope.attacks.closed_form.span.target import Target
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.common.running import Kept, Observations, OnIteration, silent
from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.learned.feature_matching import FeatureMatching, rehearsal, simulated_steps
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
    public: LabelledImages

    @classmethod
    def learned(cls, setup: Setup, public: LabelledImages, layer: str, rng: torch.Generator) -> "FeatureRegression":
        """From what a client would see of the public images."""
        features = public_features(setup, public.images, layer, rng)
        scalings = {FEATURES: Units.of(features)}
        ridge = Ridge.fit({FEATURES: features}, scalings, public.images.flatten(1), _folds(public))
        return cls(ridge, public)

    @property
    def unexplained(self) -> float:
        """The share of the public images' variance that the features of other patients' images leave open."""
        return min(self.ridge.error, 1.0)

    def __call__(self, maps: Tensor) -> Tensor:
        return self._images(self.ridge.predict({FEATURES: maps.flatten(1)}))

    def held_out(self) -> Tensor:
        """The public images as they would be guessed by one who had not learned from them."""
        return self._images(self.ridge.held_out(self.public.images.flatten(1), _folds(self.public)))

    def _images(self, rows: Tensor) -> Tensor:
        return rows.float().view(-1, *self.public.images.shape[1:]).clamp(0, 1)


@dataclass(frozen=True, eq=False)
class Found:
    """The features that one layer shows, and who shared a step."""

    target: Target
    groups: list[Tensor] | None


@dataclass(frozen=True)
class FeatureDecoder:
    """The images whose features an update shows: those of the layer that promises most."""

    name: str = "feature-decoder"
    matching: FeatureMatching | None = field(default_factory=FeatureMatching)
    """None leaves it with what the regression says."""
    budget: Budget = field(default_factory=lambda: Budget(80))
    """Of the matching."""
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
            report = partial(on_iteration, number, len(observations))
            found.append(self._one(observation, generator(seed, digest(observation.update), self.name), report))
            report()
        return found

    def _one(self, observation: Observation, rng: torch.Generator, report: Callable[[], None]) -> Reconstruction:
        setup, client, public = Setup.of(observation), Client(observation), observation.public_images
        assert public is not None  # required above
        best, reached = math.inf, []
        chosen: tuple[Found, FeatureRegression] | None = None
        for found in _found(client, setup, public, rng, report):
            regression = FeatureRegression.learned(setup, public, found.target.layer, rng)
            # What stays open of all images: those that were not found, and what their features do not say.
            left = 1 - len(found.target.maps) / setup.training.images * (1 - regression.unexplained)
            reached.append(left)
            if left < best:
                best, chosen = left, (found, regression)
        if chosen is None:
            return Reconstruction(public.images.mean(0, keepdim=True), None, math.inf, nothing=_nothing(setup.training))
        decoded = chosen[1](chosen[0].target.maps)
        images = self._matched(setup, client, *chosen, decoded, rng, report)
        return Reconstruction(images, None, best, restarts=tuple(reached), trace=tuple(reached), start=decoded)

    def _matched(
        self,
        setup: Setup,
        client: Client,
        found: Found,
        regression: FeatureRegression,
        decoded: Tensor,
        rng: torch.Generator,
        report: Callable[[], None],
    ) -> Tensor:
        """The decoded images, brought to the features that were found, where that pays on public images."""
        simulated: Simulated | None = client
        if setup.training.steps > 1:
            told = len(found.target.maps)
            simulated = None if found.groups is None else simulated_steps(setup, found.groups, told)
        if self.matching is None or simulated is None or not self._pays(setup, found, regression, rng, report):
            return decoded
        start = decoded
        if isinstance(simulated, SimulatedSteps):
            spare = sum(map(len, simulated.groups)) - len(decoded)
            start = torch.cat([decoded, regression.public.images.mean(0, keepdim=True).repeat(spare, 1, 1, 1)])
        return self.matching(simulated, found.target, start, self.budget, report)

    def _pays(
        self,
        setup: Setup,
        found: Found,
        regression: FeatureRegression,
        rng: torch.Generator,
        report: Callable[[], None],
    ) -> bool:
        """Whether public images come nearer (in squared error) to the truth."""
        assert self.matching is not None  # asked before
        training, public = setup.training, regression.public.images
        size = min(training.batch_size, training.images)
        count = min(training.images, len(public)) // size * size
        if not count:
            return False
        chosen = torch.randperm(len(public), generator=rng)[:count]
        simulated, target = rehearsal(setup, public[chosen], found.target.layer)
        before = regression.held_out()[chosen]
        after = self.matching.rehearsed(simulated, target, before, self.budget, report)
        return bool((after - public[chosen]).square().mean() < (before - public[chosen]).square().mean())


def _found(
    client: Client, setup: Setup, public: LabelledImages, rng: torch.Generator, report: Callable[[], None]
) -> Iterator[Found]:
    """What single layers show, the nearest to the pixels first, until one shows every image."""
    for layer in client.readable:
        maps = client.maps(layer, rng, report)
        if len(maps) and setup.training.passes > 1:
            maps = first_views(maps, setup.training.images, drift(setup, public.images, layer.name, rng))
        if len(maps):
            # Steps are told apart where every image was seen once.
            groups = client.groups(layer, maps) if setup.training.passes == 1 else None
            yield Found(client.further(layer, maps), groups)
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

"""The client that the attacker simulates: its network, normalised as it was, and the features that its update shows."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fluoroscope.attacks.closed_form.span.chain import Affine, before
from fluoroscope.attacks.closed_form.span.completion import complete
from fluoroscope.attacks.closed_form.span.feature_maps import feature_maps
from fluoroscope.attacks.closed_form.span.layers import Layer, layers
from fluoroscope.attacks.closed_form.span.row_space import is_clear, row_space
from fluoroscope.attacks.closed_form.span.step_groups import step_groups
from fluoroscope.attacks.closed_form.span.target import Target
from fluoroscope.attacks.closed_form.span.unmixing import rectified, unmix
from fluoroscope.attacks.common.gradients import Reading, first_step_of_adam, gradient_of
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.gradient_inversion.evidence import statistics
from fluoroscope.attacks.gradient_inversion.pullback import Statistics
from fluoroscope.errors import Unsupported
from fluoroscope.federation.local_training import guessed_schedule
from fluoroscope.models.modes import named_buffers
from fluoroscope.types import Adam, Capability, LocalTraining, Observation

ERROR = 0.3
"""A map's error over how far it stands outside the span: the span's own error is spread over all its patches."""
NEGATIVE = 0.01
"""Of the norm of maps one convolution further, what may be below zero: beyond it, those behind it are better known."""
REMEDY = "Use an optimisation attack, such as epochwise or inverting-gradients."


class ShowsNothing(Exception):
    """No layer of an update shows its images' features."""


class Client:
    """One observation of one or several epochs of SGD, or of one step of any optimiser."""

    def __init__(self, observation: Observation) -> None:
        setup = Setup.of(observation, {Capability.UPDATE}, "span")
        training = setup.training
        check_training(training)
        self.shape = setup.network.input_shape
        self._training, self._update = training, gradient_of(setup) or {}
        self._views = sum(len(part) for part in guessed_schedule(training))  # every epoch sees an image anew
        self._readings = first_step_of_adam(setup) if isinstance(training.optimiser, Adam) else {}
        self._changes: dict[str, Tensor | None] = {}
        self._model, self._state = setup.model.requires_grad_(False), dict(setup.state)
        self._layers = layers(self._model, self._state, torch.rand((2, *self.shape), generator=torch.Generator()))
        self._statistics = statistics(setup, alone=False)
        # What the buffers say of one step is exact. Else an image that is a batch of its own is normalised by itself.
        self._alone = min(training.batch_size, training.images) == 1 and (training.steps > 1 or not self._statistics)
        if not self._alone:
            self._model.eval()
            for name, found in self._statistics.items():
                self._state[f"{name}.running_mean"], self._state[f"{name}.running_var"] = found

    def features(self, images: Tensor, layer: str) -> tuple[Tensor, Tensor]:
        """What the convolution `layer` is given for each of these images, and how far their batch's statistics are off.

        Nothing beyond the layer is computed. Statistics that were withheld, or of which the update shows a mixture of
        several steps only, do not count.
        """
        if self._alone:
            return torch.cat([self._pass(image[None], layer)[0] for image in images]), images.new_zeros(())
        features, measured = self._pass(images, layer)
        if self._training.steps > 1:
            return features, images.new_zeros(())
        gaps = [
            (ours - seen).norm() / seen.norm()
            for name, found in measured.items()
            for ours, seen in zip(found, self._statistics[name], strict=True)
        ]
        return features, torch.stack(gaps).mean() if gaps else images.new_zeros(())

    def target(self, rng: torch.Generator) -> Target:
        """The features of the client's images at the first convolution whose update shows them."""
        for layer in self.readable:
            maps = self.maps(layer, rng)
            if len(maps):
                return self.further(layer, maps)
        raise ShowsNothing(
            f"this update of {self._training.images} images shows no layer's features: either it is noised, or every "
            "convolution behind a ReLU has fewer channels than the images have positions there."
        )

    @property
    def readable(self) -> list[Layer]:
        """The convolutions whose update may show their input, in the order in which they run."""
        return [x for x in self._layers if x.slides and x.sparse and f"{x.name}.weight" in self._update]

    def maps(self, layer: Layer, rng: torch.Generator, tick: Callable[[], None] = lambda: None) -> Tensor:
        """The features (found, channels, h, w) of single images, each of norm 1, that the update of `layer` shows.

        Of several epochs those of each: the same images, as moved weights see them.
        """
        span = self._span(layer)
        found = None if span is None else feature_maps(span, layer, self._views, rng)
        if found is None:
            return torch.zeros(0, *layer.shape, dtype=torch.float64)
        return unmix(found.basis, rng, ERROR * found.outside, tick)

    def groups(self, layer: Layer, maps: Tensor) -> list[Tensor] | None:
        """The numbers of those maps that shared a step, step by step in no order; None where that is not clear."""
        span = self._span(layer)
        return None if span is None else step_groups(span, layer, maps, self._training.steps)

    def further(self, layer: Layer, maps: Tensor) -> Target:
        """One convolution further towards the pixels, where that is possible."""
        known_weights = (other for other in self._layers if f"{other.name}.weight" in self._update)
        source = next((other for other in known_weights if other.name == layer.fed_by), None)
        # An error in the span grows on the way back.
        change = None if source is None else self._change(source)
        clear = source is not None and change is not None and is_clear(change, self._rank(source))
        span = self._span(source) if source is not None and clear else None
        known = source is not None and source.norm in self._statistics and self._training.steps == 1
        if source is None or source.norm is None or span is None or not known:
            return Target(layer.name, maps.float(), scaled=False)
        norm = self._model.get_submodule(source.norm)
        assert isinstance(norm, nn.BatchNorm2d)
        affine = Affine(self._state[f"{source.norm}.weight"], self._state[f"{source.norm}.bias"], norm.eps)
        weight = self._state[f"{source.name}.weight"].double()
        earlier, _ = before(source, span, weight, affine, self._statistics[source.norm], maps.clamp_min(0))
        if source.sparse and not rectified(earlier, NEGATIVE).all():  # its update is too little known to add anything
            return Target(layer.name, maps.float(), scaled=False)
        return Target(source.name, earlier.float(), scaled=True)

    def _span(self, layer: Layer) -> Tensor | None:
        change = self._change(layer)
        return None if change is None else row_space(change, self._rank(layer))

    def _change(self, layer: Layer) -> Tensor | None:
        """The layer's gradient; of a first step of Adam what its rank says of it, None where that is too little."""
        key = f"{layer.name}.weight"
        if key not in self._readings:
            return self._update[key]
        if key not in self._changes:
            reading = Reading(*(part.flatten(1) for part in self._readings[key]))
            self._changes[key] = complete(reading, self._rank(layer))
        return self._changes[key]

    def _rank(self, layer: Layer) -> int:
        # BatchNorm's derivative sums to zero over a step's positions: each step spans one dimension less.
        return self._views * layer.positions - (self._training.steps if layer.norm else 0)

    def _pass(self, images: Tensor, layer: str) -> tuple[Tensor, dict[str, Statistics]]:
        found: list[Tensor] = []
        measured: dict[str, Statistics] = {}

        def stop(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            found.append(inputs[0])
            raise _Reached

        def measure(name: str, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            var, mean = torch.var_mean(inputs[0], dim=(0, 2, 3), correction=0)
            measured[name] = Statistics(mean, var)

        handles = [self._model.get_submodule(layer).register_forward_pre_hook(stop)]
        handles += [
            self._model.get_submodule(name).register_forward_pre_hook(partial(measure, name))
            for name in self._statistics
        ]
        buffers = named_buffers(self._model, self._state)
        try:
            functional_call(self._model, {**self._state, **buffers}, (images,))
        except _Reached:
            pass
        finally:
            for handle in handles:
                handle.remove()
        return found[0], measured


class _Reached(Exception):
    """The pass came to the layer: the rest of the network need not run."""


def check_seen(observation: Observation) -> None:
    """Refuse what features cannot be read from, as far as that is known before an update is looked at."""
    if observation.training is not None:
        check_training(observation.training)


def check_one_epoch(observation: Observation) -> None:
    """The same, and several epochs: pixels are searched for at the weights that the round began with.

    Raises:
        Unsupported: the client went through its images more than once, or its update cannot be read at all.
    """
    check_seen(observation)
    training = observation.training
    if training is not None and training.passes > 1:
        raise Unsupported(
            "pixels are found for one step, or for one epoch of SGD; this client ran "
            f"{training.passes} epochs of {training.optimiser}.",
            "Use feature-decoder, which tells an image's views of several epochs apart.",
        )


def check_training(training: LocalTraining) -> None:
    """Refuse an update that is no sum of its images' gradients.

    Raises:
        Unsupported: several steps of Adam, or BatchNorm that does not train.
    """
    if isinstance(training.optimiser, Adam) and training.steps > 1:
        raise Unsupported(
            "features are read from one step, or from several of SGD: any other update is not a sum of its images' "
            f"gradients; this client ran {training.steps} steps, {training.passes} epochs of {training.optimiser}.",
            REMEDY,
        )
    if training.batchnorm != "train":
        raise Unsupported("features are read where BatchNorm is in training mode, and this client's was not.", REMEDY)

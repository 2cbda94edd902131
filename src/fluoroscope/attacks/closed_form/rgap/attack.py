"""R-GAP as an attack: a closed form, so there is nothing to draw, to iterate or to resume."""

from dataclasses import dataclass

import torch
from torch import Generator

from fluoroscope.attacks.closed_form.rgap.chain import chain_of
from fluoroscope.attacks.closed_form.rgap.recover import explained, recover
from fluoroscope.attacks.common.gradients import is_exact
from fluoroscope.attacks.common.running import Kept, Observations, OnIteration, silent
from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.gradient_inversion.distances import Cosine
from fluoroscope.attacks.gradient_inversion.evidence import direction
from fluoroscope.errors import Unsupported
from fluoroscope.types import Capability, CrossEntropy, Observation, Reconstruction


@dataclass(frozen=True)
class RGap:
    """One image, layer by layer from the last to the first; its objective is 1 - cos of the gradients."""

    name: str = "r-gap"

    @property
    def needs(self) -> frozenset[Capability]:
        return SIMULATION | {Capability.UPDATE}

    def run(
        self, observations: Observations, rng: Generator, on_iteration: OnIteration = silent, checkpoint: Kept = None
    ) -> list[Reconstruction]:
        """Every observation by itself, in a fraction of a second."""
        found = []
        for i, observation in enumerate(observations):
            found.append(self._one(observation))
            on_iteration(i, len(observations))
        return found

    def check(self, observation: Observation) -> None:
        training = observation.training
        if training is None:
            return
        plain = isinstance(training.loss, CrossEntropy) and training.loss.plain
        if (training.images, training.steps) != (1, 1) or not is_exact(training) or not plain:
            raise Unsupported(
                f"{self.name} inverts one step of Sgd on one image, and this client made {training.steps} of "
                f"{type(training.optimiser).__name__} on {training.images}; its clipping and its loss must be plain "
                "too.",
                "Use an optimisation attack, such as inverting-gradients.",
            )

    def _one(self, observation: Observation) -> Reconstruction:
        setup = Setup.of(observation, self.needs, self.name)
        self.check(observation)
        state = setup.state
        if set(setup.update) != {name for name, _ in setup.model.named_parameters()}:
            raise Unsupported(f"{self.name} needs every layer's update, and some were not trained or not sent.")
        seen = direction(setup)
        image, label = recover(chain_of(setup.network), state, seen)
        again = explained(setup.model, state, seen, image, label)
        objective = float(Cosine()([again[name] for name in seen], list(seen.values())))
        return Reconstruction(image, torch.tensor([label]), objective, restarts=(objective,), trace=(objective,))

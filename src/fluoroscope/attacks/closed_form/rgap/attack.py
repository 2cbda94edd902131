"""R-GAP as an attack: a closed form, so there is nothing to draw, to iterate or to resume."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad

from fluoroscope.attacks.closed_form.rgap.recover import recover
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.gradient_inversion.distances import Cosine
from fluoroscope.errors import Unsupported
from fluoroscope.federation.local_training import client_mode
from fluoroscope.models import build
from fluoroscope.threat_models.needs import require
from fluoroscope.types import Capability, Observation, Reconstruction, Sgd


@dataclass(frozen=True)
class RGap:
    """One image, layer by layer from the last to the first; its objective is 1 - cos of the gradients."""

    name: str = "r-gap"

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset({Capability.ARCHITECTURE, Capability.TRAINING, Capability.GLOBAL_STATE, Capability.UPDATE})

    def run(
        self,
        observations: Sequence[Observation],
        rng: torch.Generator,
        on_iteration: Callable[[int, int], None] = lambda iteration, iterations: None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Reconstruction]:
        """Every observation by itself, in a fraction of a second."""
        found = []
        for i, observation in enumerate(observations):
            require(self.name, observation, sorted(self.needs))
            found.append(self._one(observation))
            on_iteration(i, len(observations))
        return found

    def _one(self, observation: Observation) -> Reconstruction:
        architecture, training, state, update = (
            observation.architecture,
            observation.training,
            observation.state_before,
            observation.update,
        )
        assert architecture is not None
        assert training is not None
        assert state is not None
        assert update is not None
        if (training.images, training.steps) != (1, 1) or not isinstance(training.optimiser, Sgd):
            raise Unsupported(
                f"{self.name} inverts one step of Sgd on one image, and this client made {training.steps} of "
                f"{type(training.optimiser).__name__} on {training.images}: use an optimisation attack, such as "
                "inverting-gradients."
            )
        model = client_mode(build(architecture), training)
        seen = {name: update[name] / -training.optimiser.lr for name, _ in model.named_parameters()}
        image, label = recover(model, state, seen, (architecture.channels, architecture.size, architecture.size))

        def loss(parameters: dict[str, Tensor]) -> Tensor:
            return nn.functional.cross_entropy(functional_call(model, parameters, (image,)), torch.tensor([label]))

        again = grad(loss)({name: state[name] for name in seen})
        objective = float(Cosine()([again[name] for name in seen], list(seen.values())))
        return Reconstruction(image, torch.tensor([label]), objective, restarts=(objective,), trace=(objective,))

"""DeepInversion (Yin et al. 2020): what the global model alone gives away. No update is needed."""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from fluoroscope.attacks.common.batch_statistics import mismatch
from fluoroscope.attacks.common.measuring import measured
from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.gradient_inversion.pullback import Statistics
from fluoroscope.attacks.gradient_inversion.regularisers import Regulariser
from fluoroscope.attacks.gradient_inversion.row_layout import ObjectiveAndGradients
from fluoroscope.errors import Unsupported
from fluoroscope.models.modes import use_mode
from fluoroscope.types import Capability, Observation, blueprint


@dataclass(frozen=True)
class ModelObjective:
    """Images that the model takes for the chosen classes, with the statistics that its BatchNorm layers remember."""

    batchnorm_weight: float
    class_weight: float = 1.0
    regularisers: tuple[Regulariser, ...] = field(default=())

    @property
    def needs(self) -> frozenset[Capability]:
        return SIMULATION


class GlobalModel:
    """The global model in evaluation mode, as its users run it."""

    def __init__(self, observation: Observation, objective: ModelObjective) -> None:
        self.objective = objective
        self.setup = Setup.of(observation, objective.needs, "deepinversion")
        self.model = use_mode(blueprint(self.setup.network), self.setup.training.normalisation)
        self.state, self._loss = self.setup.state, self.setup.training.loss
        layers = [name for name, layer in self.model.named_modules() if isinstance(layer, _BatchNorm)]
        if not layers:
            raise Unsupported(
                f"DeepInversion matches BatchNorm statistics, and {self.setup.network.name} has no BatchNorm layer: "
                "choose a model that has, such as resnet18, or an attack on the update, such as dlg."
            )
        self.remembered = {
            name: Statistics(self.state[f"{name}.running_mean"], self.state[f"{name}.running_var"]) for name in layers
        }

    def evaluate(self, images: Tensor, logits: Tensor) -> ObjectiveAndGradients:
        """By autograd: one forward and one backward pass."""
        with measured(self.model, at_rest=True) as found, torch.enable_grad():
            images, logits = images.detach().requires_grad_(), logits.detach().requires_grad_()
            predicted = functional_call(self.model, self.state, (images,))
            terms = [self.objective.class_weight * self._loss(predicted, self._loss.soft(logits))]
            terms += [self.objective.batchnorm_weight * mismatch(found, self.remembered)]
            terms += [regulariser(images) for regulariser in self.objective.regularisers]
            value = torch.stack(terms).sum()
        to_images, to_logits = torch.autograd.grad(value, (images, logits))
        return value.detach(), to_images, to_logits

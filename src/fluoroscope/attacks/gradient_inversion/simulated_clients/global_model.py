"""DeepInversion (Yin et al. 2020): what the global model alone gives away. No update is needed."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from fluoroscope.attacks.common.batch_statistics import mismatch
from fluoroscope.attacks.gradient_inversion.pullback import Statistics
from fluoroscope.attacks.gradient_inversion.regularisers import Regulariser
from fluoroscope.attacks.gradient_inversion.row_layout import ObjectiveAndGradients
from fluoroscope.errors import Unsupported
from fluoroscope.models import build
from fluoroscope.types import Capability, Observation


@dataclass(frozen=True)
class ModelObjective:
    """Images that the model takes for the chosen classes, with the statistics that its BatchNorm layers remember."""

    batchnorm_weight: float
    class_weight: float = 1.0
    regularisers: tuple[Regulariser, ...] = field(default=())

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset({Capability.ARCHITECTURE, Capability.TRAINING, Capability.GLOBAL_STATE})


class GlobalModel:
    """The global model in evaluation mode, as its users run it."""

    def __init__(self, observation: Observation, objective: ModelObjective) -> None:
        architecture, training = observation.architecture, observation.training
        assert architecture is not None
        assert training is not None
        self.objective = objective
        self.shape = (training.images, architecture.channels, architecture.size, architecture.size)
        self.classes = architecture.classes
        self.model = build(architecture).eval()
        self.state = {**(observation.state_before or {}), **(observation.buffers_before or {})}
        layers = [name for name, layer in self.model.named_modules() if isinstance(layer, _BatchNorm)]
        if not layers:
            raise Unsupported(
                f"DeepInversion matches BatchNorm statistics, and {architecture.name} has no BatchNorm layer: choose a "
                "model that has, such as resnet18, or an attack on the update, such as dlg."
            )
        self.remembered = {
            name: Statistics(self.state[f"{name}.running_mean"], self.state[f"{name}.running_var"]) for name in layers
        }

    def evaluate(self, images: Tensor, logits: Tensor) -> ObjectiveAndGradients:
        """By autograd: one forward and one backward pass."""
        found: dict[str, Statistics] = {}

        def measure(name: str, x: Tensor) -> None:
            var, mean = torch.var_mean(x, dim=[0, *range(2, x.ndim)], correction=0)
            found[name] = Statistics(mean, var)

        handles = [
            layer.register_forward_pre_hook(lambda layer, inputs, name=name: measure(name, inputs[0]))
            for name, layer in self.model.named_modules()
            if name in self.remembered
        ]
        try:
            with torch.enable_grad():
                images, logits = images.detach().requires_grad_(), logits.detach().requires_grad_()
                predicted = functional_call(self.model, self.state, (images,))
                terms = [self.objective.class_weight * nn.functional.cross_entropy(predicted, logits.softmax(1))]
                terms += [self.objective.batchnorm_weight * mismatch(found, self.remembered)]
                terms += [regulariser(images) for regulariser in self.objective.regularisers]
                value = torch.stack(terms).sum()
            to_images, to_logits = torch.autograd.grad(value, (images, logits))
        finally:
            for handle in handles:
                handle.remove()
        return value.detach(), to_images, to_logits

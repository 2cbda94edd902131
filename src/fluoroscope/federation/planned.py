"""What the tables [model] and [training] of a plan mean: a network, and a client's training."""

from collections.abc import Sequence

from fluoroscope.errors import Misconfigured
from fluoroscope.federation.plan import ModelPlan
from fluoroscope.federation.training_plan import TrainingPlan
from fluoroscope.federation.training_record import loss_of
from fluoroscope.models import Architecture, ImportedNetwork
from fluoroscope.types import (
    Adam,
    AdamW,
    CrossEntropy,
    LocalOptimiser,
    LocalTraining,
    Loss,
    Network,
    Normalisation,
    OneGradient,
    Sgd,
)
from fluoroscope.types.network import Shape


def planned_network(model: ModelPlan, shape: Shape, classes: Sequence[str], source: str) -> Network:
    """The network that takes images of this shape and tells these classes apart; messages name their source."""
    channels, height, width = shape
    if model.factory is None:
        size = height if height == width else (height, width)
        return Architecture(model.name, channels, len(classes), size, model.weights)
    network = ImportedNetwork(model.factory, model.arguments, shape)
    if network.outputs != len(classes):
        raise Misconfigured(
            f"{model.factory} gives {network.outputs} outputs, and {source} has {len(classes)} classes: "
            f"{', '.join(classes)}. Set model.arguments to match."
        )
    return network


def planned_normalisation(settings: TrainingPlan) -> Normalisation | None:
    """What is done to pixels before the network."""
    said = settings.normalisation
    return None if said is None else Normalisation(said.mean, said.std)


def planned_training(settings: TrainingPlan, images: int, batch_size: int, epochs: int, lr: float) -> LocalTraining:
    """Training as the plan sets it, on so many images."""
    return LocalTraining(
        optimiser=_optimiser(settings, lr),
        images=images,
        batch_size=batch_size,
        epochs=epochs,
        loss=_loss(settings),
        batchnorm=settings.batchnorm,
        batchnorm_momentum=settings.batchnorm_momentum,
        max_steps=settings.steps,
        normalisation=planned_normalisation(settings),
        clip_norm=settings.clip_norm,
        frozen=settings.frozen,
    )


def _optimiser(settings: TrainingPlan, lr: float) -> LocalOptimiser:
    if settings.optimiser == "sgd":
        return Sgd(lr, settings.momentum, settings.weight_decay, settings.nesterov)
    if settings.optimiser == "gradient":
        return OneGradient()
    kind = {"adam": Adam, "adamw": AdamW}[settings.optimiser]
    return kind(lr, settings.betas, settings.eps, settings.weight_decay)


def _loss(settings: TrainingPlan) -> Loss:
    if settings.loss == "cross-entropy":
        return CrossEntropy(settings.class_weights, settings.label_smoothing)
    weighed = settings.class_weights
    return loss_of(settings.loss, {} if weighed is None else {"positive_weights": weighed})

"""What the tables [model] and [training] of a plan mean: a network, and a client's training."""

from fluoroscope.errors import Misconfigured
from fluoroscope.federation.plan import ModelPlan, TrainingPlan
from fluoroscope.federation.training_record import loss_of
from fluoroscope.models import Architecture, ImportedNetwork
from fluoroscope.types import (
    Adam,
    AdamW,
    CrossEntropy,
    ImageSet,
    LocalOptimiser,
    LocalTraining,
    Loss,
    Network,
    Normalisation,
    OneGradient,
    Sgd,
)


def planned_network(model: ModelPlan, images: ImageSet) -> Network:
    """The network that takes these images and tells their classes apart."""
    channels, height, width = images.shape
    if model.factory is None:
        size = height if height == width else (height, width)
        return Architecture(model.name, channels, len(images.classes), size, model.weights)
    network = ImportedNetwork(model.factory, model.arguments, (channels, height, width))
    if network.outputs != len(images.classes):
        raise Misconfigured(
            f"{model.factory} gives {network.outputs} outputs, and {images.name} has "
            f"{len(images.classes)} classes: {', '.join(images.classes)}. Set model.arguments to match."
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

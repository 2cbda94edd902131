"""What an objective is compared with, on the scale of one step: the client's mean direction and mean statistics."""

import torch
from torch import Tensor, nn

from fluoroscope.attacks.common.batch_statistics import recovered, values_per_channel
from fluoroscope.attacks.gradient_inversion.pullback.contract import Statistics
from fluoroscope.errors import Unsupported
from fluoroscope.types import LocalTraining, Observation, Sgd


def is_one_gradient(training: LocalTraining) -> bool:
    """Whether the update is a multiple of one batch's gradient: Sgd's first step has no momentum and no drift yet."""
    optimiser = training.optimiser
    return training.steps == 1 and isinstance(optimiser, Sgd) and not optimiser.weight_decay


def gives_statistics(observation: Observation) -> bool:
    """Whether the buffers that were sent tell of the batches: some layer has them, and they were trained."""
    training, after = observation.training, observation.buffers_after or {}
    has = any(name.endswith("running_mean") for name in after)
    return has and training is not None and training.batchnorm == "train" and training.batchnorm_momentum > 0


def direction(observation: Observation, model: nn.Module) -> dict[str, Tensor]:
    """The update over -lr and the number of steps, by parameter that was sent, in the order of the network.

    The mean of the directions that the client's optimiser took: of one step of plain SGD the gradient (P4), of Adam
    what it makes of it. Its scale depends neither on lr nor on how many steps there were.
    """
    update, training = observation.update, observation.training
    assert update is not None
    assert training is not None
    over = -training.optimiser.lr * training.steps
    return {name: update[name] / over for name, _ in model.named_parameters() if name in update}


def statistics(observation: Observation, model: nn.Module, alone: bool) -> dict[str, Statistics]:
    """The batches' mean statistics, as the buffers weigh them, by BatchNorm layer: exact for one step.

    `model` is in the client's mode. None where no layer trained its buffers, which an objective that compares them
    `alone` cannot do without.
    """
    training, architecture = observation.training, observation.architecture
    assert training is not None
    assert architecture is not None
    if gives_statistics(observation):
        counts = values_per_channel(model, torch.zeros(batch_shape(observation)))
        # T steps of momentum m forget the old buffers as one of momentum 1 - (1-m)^T does.
        forgotten = 1 - (1 - training.batchnorm_momentum) ** training.steps
        return recovered(observation.buffers_before or {}, observation.buffers_after or {}, forgotten, counts)
    if alone:
        raise Unsupported(
            f"this attack compares BatchNorm statistics, and a client that trains {architecture.name} with BatchNorm "
            f"in mode {training.batchnorm!r} gives none away: choose an attack on the update, such as "
            "inverting-gradients."
        )
    return {}


def batch_shape(observation: Observation) -> tuple[int, int, int, int]:
    """Of the client's batches, but for a smaller last one."""
    training, architecture = observation.training, observation.architecture
    assert training is not None
    assert architecture is not None
    images = min(training.batch_size, training.images)
    return images, architecture.channels, architecture.size, architecture.size

"""What an objective is compared with, on the scale of one step: the client's mean direction and mean statistics."""

import torch
from torch import Tensor

from fluoroscope.attacks.common.batch_statistics import recovered, values_per_channel
from fluoroscope.attacks.common.gradients import gradient_of, is_exact
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.gradient_inversion.pullback.contract import Statistics
from fluoroscope.errors import Unsupported
from fluoroscope.types import Observation


def gives_statistics(observation: Observation) -> bool:
    """Whether the buffers that were sent tell of the batches: some layer has them, and they were trained."""
    training, after = observation.training, observation.buffers_after or {}
    has = any(name.endswith("running_mean") for name in after)
    return has and training is not None and training.batchnorm == "train" and training.batchnorm_momentum > 0


def direction(setup: Setup) -> dict[str, Tensor]:
    """The update over -lr and the number of steps, by parameter that was sent, in the order of the network.

    Of one step of SGD the gradient itself (P4). Of any other round the mean of the directions that the client's
    optimiser took, of Adam what it makes of a gradient: its scale depends neither on lr nor on how many steps there
    were.
    """
    exact = gradient_of(setup) if is_exact(setup.training) else None
    over = -setup.training.optimiser.lr * setup.training.steps
    return exact or {name: value / over for name, value in setup.update.items()}


def statistics(setup: Setup, alone: bool) -> dict[str, Statistics]:
    """The batches' mean statistics, as the buffers weigh them, by BatchNorm layer: exact for one step.

    None where no layer trained its buffers, which an objective that compares them `alone` cannot do without.
    """
    training, observation = setup.training, setup.observation
    if gives_statistics(observation):
        counts = values_per_channel(setup.model, torch.zeros(setup.batch_shape))
        # T steps of momentum m forget the old buffers as one of momentum 1 - (1-m)^T does.
        forgotten = 1 - (1 - training.batchnorm_momentum) ** training.steps
        return recovered(observation.buffers_before or {}, observation.buffers_after or {}, forgotten, counts)
    if alone:
        check_statistics(observation)
    return {}


def check_statistics(observation: Observation) -> None:
    """Refuse an update whose buffers tell nothing of the batches.

    Raises:
        Unsupported: they do not.
    """
    network, training = observation.network, observation.training
    if network is not None and training is not None and not gives_statistics(observation):
        raise Unsupported(
            f"BatchNorm statistics are read, and a client that trains {network.name} with BatchNorm in mode "
            f"{training.batchnorm!r} gives none away.",
            "Choose an attack on the update, such as inverting-gradients.",
        )

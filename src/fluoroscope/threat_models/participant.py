"""What one who takes part in a federation sees of its rounds."""

from collections.abc import Mapping
from dataclasses import dataclass

from fluoroscope.threat_models.grants import granted
from fluoroscope.types import Knowledge, LocalTraining, Observation, RoundView, blueprint, split_state


@dataclass(frozen=True, eq=False)
class ParticipantObservation(Observation):
    """A round as it begins for a participant: it is sent the global model, and nobody has sent an update yet."""

    metrics: Mapping[str, float] | None = None
    """What the server tells of the round before, which this global model came of."""


def observe_round(view: RoundView, training: LocalTraining, knowledge: Knowledge) -> ParticipantObservation:
    """What `knowledge` grants of a round that is over.

    The model that came of it is the one that the next round begins with, so that is the round of the observation.

    Args:
        view: the round.
        training: how the participant itself is told to train.
        knowledge: the threat model.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from fluoroscope.threat_models import THREATS
        >>> from fluoroscope.types import Capability, Network, Sgd
        >>> module = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
        >>> view = RoundView(1, Network.of(module, (1, 2, 2)), module.state_dict(), {"loss": 0.7})
        >>> training = LocalTraining(Sgd(0.1), images=1, batch_size=1)
        >>> curious = THREATS.get("curious-client")
        >>> observe_round(view, training, curious).metrics
        {'loss': 0.7}
        >>> print(observe_round(view, training, curious.without(Capability.GLOBAL_STATE)).metrics)
        None
    """
    named = {name for name, _ in blueprint(view.network).named_buffers()}
    parameters, buffers = split_state(view.state, named)
    everything = {
        "network": view.network,
        "training": training,
        "state_before": parameters,
        "buffers_before": buffers,
        "metrics": view.metrics,
    }
    return ParticipantObservation(knowledge, view.round + 1, (), **granted(knowledge, everything))

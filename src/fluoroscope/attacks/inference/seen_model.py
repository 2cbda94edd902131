"""The model that an attacker sees, and what it makes of images: the evidence of every inference attack."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.func import functional_call

from fluoroscope.errors import Misconfigured
from fluoroscope.models.modes import use_mode
from fluoroscope.threat_models.needs import require
from fluoroscope.types import (
    Capability,
    CrossEntropy,
    LabelledImages,
    Loss,
    Network,
    Normalisation,
    Observation,
    State,
    blueprint,
)

CHUNK = 64
"""Images in one forward pass."""
MODEL = frozenset({Capability.ARCHITECTURE, Capability.GLOBAL_STATE})
"""Without these nobody has a model to ask."""


@dataclass(frozen=True, eq=False)
class SeenModel:
    """A model as the attacker runs it."""

    network: Network
    state: State
    """Parameters and buffers."""
    normalisation: Normalisation | None = None
    """As the training has it, which whoever uses the model must do too."""
    loss: Loss = field(default_factory=CrossEntropy)

    @classmethod
    def of(cls, observation: Observation) -> "SeenModel":
        """The latest model that an observation shows.

        It is the one that the client sent, where its update is granted, and the global model otherwise. What did not
        leave the client is as the round began. Without the training configuration, images are taken as they are and
        the loss is cross-entropy.

        Args:
            observation: one that grants `MODEL`.
        """
        network, before, training = observation.network, observation.state_before, observation.training
        assert network is not None  # attacks require both
        assert before is not None
        sent = {name: before[name] + change for name, change in (observation.update or {}).items()}
        state = {**before, **(observation.buffers_before or {}), **sent, **(observation.buffers_after or {})}
        if training is None:
            return cls(network, state)
        return cls(network, state, training.normalisation, training.loss)

    @torch.no_grad()
    def logits(self, records: LabelledImages) -> Tensor:
        """(n, outputs), in evaluation mode, in float64."""
        model = use_mode(blueprint(self.network), self.normalisation)
        device = next(iter(self.state.values())).device
        chunks = torch.split(records.images, CHUNK)
        return (
            torch.cat([functional_call(model, dict(self.state), (part.to(device),)) for part in chunks]).double().cpu()
        )

    def losses(self, records: LabelledImages) -> Tensor:
        """The client's loss of each record, (n,)."""
        return self.loss.per_image(self.logits(records), records.labels.cpu())


def seen_models(attack: str, observations: Sequence[Observation], needs: Iterable[Capability]) -> list[SeenModel]:
    """The model of each observation, for an attack that is refused what it needs otherwise."""
    if not observations:
        raise Misconfigured(f"{attack} was given no observation: give it one per client or per round.")
    for observation in observations:
        require(attack, observation, sorted(needs))
    return [SeenModel.of(observation) for observation in observations]

"""Whether an image is behind an update, by the part of the update that points along the image's own gradient.

Under DP-SGD an update is a sum of clipped gradients with Gaussian noise, so that its component along the candidate's
gradient at the weights that were sent is the likelihood ratio of one step: no test is stronger (Nasr et al. 2023).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.inference.registry import Pool, Seen
from fluoroscope.errors import Unsupported
from fluoroscope.models.modes import client_mode, trained_names
from fluoroscope.threat_models.needs import require
from fluoroscope.types import Capability, LabelledImages, Observation, State, blueprint


@dataclass(frozen=True)
class GradientAlignment:
    """- <update, g> / |g| for each candidate's gradient g, at the state that the round began with."""

    needs: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.ARCHITECTURE, Capability.TRAINING, Capability.GLOBAL_STATE, Capability.UPDATE}
    )

    def run(self, observations: Seen, candidates: LabelledImages, rng: Generator, pool: Pool = None) -> Tensor:
        """A row per observation: high where a candidate seems to have been trained on."""
        for observation in observations:
            require("gradient-alignment", observation, sorted(self.needs))
        return torch.stack([alignment(each.update or {}, gradients(each, candidates)) for each in observations])


def gradients(observation: Observation, candidates: LabelledImages) -> dict[str, Tensor]:
    """Each candidate's own gradient, (candidates, *shape) per parameter that the client trains."""
    training, before = observation.training, observation.state_before
    if observation.network is None or training is None or before is None:
        raise Unsupported("a candidate's gradient needs the network, its training and the state that was sent.")
    network = client_mode(blueprint(observation.network), training)
    network.load_state_dict({**before, **(observation.buffers_before or {})}, strict=False)
    network.eval()  # one image has no batch statistics of its own, and dropout draws what nobody knows
    own = dict(network.named_parameters())
    names = trained_names(network, training)
    rows = []
    for i in range(len(candidates)):
        outputs = network(candidates.images[i : i + 1])
        loss = training.loss.per_image(outputs, candidates.labels[i : i + 1]).sum()
        rows.append(torch.autograd.grad(loss, [own[name] for name in names]))
    return {name: torch.stack([row[place] for row in rows]) for place, name in enumerate(names)}


def norms(rows: State) -> Tensor:
    """(candidates,): the L2 norm over all parameters of each row."""
    return torch.stack([value.double().flatten(1).square().sum(1) for value in rows.values()]).sum(0).sqrt()


def alignment(update: State, rows: State) -> Tensor:
    """(candidates,), float64: how far the update goes against each gradient. What did not leave counts for nothing."""
    sent = [name for name in rows if name in update]
    along = torch.stack([(rows[name].double() * update[name].double()).flatten(1).sum(1) for name in sent]).sum(0)
    return -along / norms(rows).clamp_min(torch.finfo(torch.float64).tiny)

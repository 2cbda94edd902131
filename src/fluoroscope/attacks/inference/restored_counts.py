"""Counts in closed form: what one gradient of the last dense layer says of the labels."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.optimize import nnls
from torch import Generator, Tensor

from fluoroscope.attacks.common.gradients import gradient_of
from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.gradient_inversion.labels import last_dense_layer
from fluoroscope.attacks.inference.label_counts import LABEL_COUNT_ATTACKS, by_class, whole_counts
from fluoroscope.attacks.inference.predicted import predicted_in_training
from fluoroscope.attacks.inference.registry import Seen
from fluoroscope.digest import digest
from fluoroscope.errors import Unsupported
from fluoroscope.types import Capability, CrossEntropy

_SUM = 100.0
"""How much the shares' adding up to 1 counts beside the gradient."""


@dataclass(frozen=True)
class RestoredCounts:
    """Batch label restoration (GradInversion, LLG), with predictions by class.

    The gradient of the last bias is mean_i (p_i - y_i). With P_c the model's mean prediction on images of class c,
    which public images tell, and s_c the shares that are looked for, it is sum_c s_c (P_c - e_c): linear in s. Exact as
    far as predictions within a class are alike, as in a network that has hardly learned yet.
    """

    needs: ClassVar[frozenset[Capability]] = SIMULATION | {Capability.UPDATE, Capability.PUBLIC_IMAGES}

    def run(self, observations: Seen, rng: Generator) -> Tensor:
        """A row per observation. Predictions on public images are made once for those of one round and training."""
        known: dict[str, Tensor] = {}
        return torch.stack(
            [_counts(Setup.of(seen, self.needs, "restored-counts"), rng, known) for seen in observations]
        )


def _counts(setup: Setup, rng: Generator, known: dict[str, Tensor]) -> Tensor:
    training, public = setup.training, setup.observation.public_images
    assert public is not None  # in `needs`
    instead = "Choose the attack 'learned-counts', which simulates the client's rounds."
    loss = training.loss
    if training.steps > 1 or not isinstance(loss, CrossEntropy) or not loss.plain:
        raise Unsupported(
            f"restored-counts reads one step of plain cross-entropy, and this client takes {training.steps} of "
            f"{type(loss).__name__}.",
            instead,
        )
    gradient = gradient_of(setup)
    assert gradient is not None  # of one step there always is one
    _, bias = last_dense_layer(gradient, setup.outputs)
    if bias is None:
        raise Unsupported("restored-counts reads the last layer's bias, which this network or update lacks.", instead)
    key = digest(setup.state, training, public)
    if key not in known:
        places = by_class("restored-counts", public, setup.outputs)
        outputs = predicted_in_training(setup, setup.state, public, rng)
        known[key] = torch.stack([outputs[chosen].mean(0) for chosen in places])
    predictions = known[key]
    system = torch.cat([(predictions - torch.eye(setup.outputs)).T.double(), torch.full((1, setup.outputs), _SUM)])
    shares, _ = nnls(system.numpy(), torch.cat([bias.double().cpu(), torch.tensor([_SUM])]).numpy())
    return whole_counts(torch.from_numpy(shares), training.images)


LABEL_COUNT_ATTACKS.add("restored-counts", RestoredCounts())

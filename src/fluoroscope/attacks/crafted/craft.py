"""What a malicious server sends (P2): a model that leaks to the victim, one that says nothing to the others."""

from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from fluoroscope.attacks.crafted.bins import Bins, make_bins
from fluoroscope.attacks.crafted.features import Features, SmoothProjections
from fluoroscope.attacks.crafted.rest import aim
from fluoroscope.errors import Unsupported
from fluoroscope.models import build
from fluoroscope.types import Architecture, Front, LocalTraining, Sgd, State

FIRST = "front.first"
GATE = 1e-3
"""Weight of a neuron in the gate: the step that shuts it must not be undone by neurons that the step woke up."""
STEADY = 2e-6
"""Size of an update that moves no image over more than a few thresholds."""


@dataclass(frozen=True, eq=False)
class Crafted:
    """What the server sends, and what it keeps to read the answer with."""

    architecture: Architecture
    victim: State
    others: State
    """For everyone else: no neuron ever fires, so their crafted layers do not change at all."""
    bins: Bins
    auxiliary: Tensor
    """(n, channels, height, width): the attacker's own images, from which the bins were made."""


@dataclass(frozen=True)
class MediLeak:
    """P2's attack; its settings are the server's choices."""

    neurons: int
    features: Features = field(default_factory=SmoothProjections)
    front: Literal["gated", "plain", "sparse"] = "gated"
    """plain is P2's module, sparse is Robbing the Fed's with a hard tanh, gated is one that shuts after a step."""
    steady: bool = False
    """For several mini-batches: updates so small that the bins stay where they are. Too small for a coarse sum."""
    size: float = 30.0
    """Of the crafted layer's update in the weighted sum: SecAgg+ rounds to 4e-6 and clips beyond 8; a tenth arrives."""
    heaviest: float = 1000.0
    """SecAgg+ weighs a client by its images over this (`max_weight`)."""

    def craft(
        self,
        agreed: Architecture,
        training: LocalTraining,
        auxiliary: Tensor,
        labels: Tensor,
        rng: torch.Generator,
        state: State | None = None,
    ) -> Crafted:
        """Models in front of the `agreed` network, for a victim that trains as configured.

        `state` is the agreed network's, fresh where it is None. The auxiliary images are the attacker's own.
        """
        if not isinstance(training.optimiser, Sgd):
            raise Unsupported("an update of Adam is not a sum of its images' gradients: the clients must train by SGD.")
        if agreed.front is not None:
            raise Unsupported("the agreed network has a front already; craft from the network without it.")
        shape = (agreed.channels, agreed.size, agreed.size)
        bins = make_bins(self.features(shape, rng), self.neurons, auxiliary)
        network = build(agreed)
        state = network.state_dict() if state is None else state
        base = auxiliary.mean(0)
        shares = torch.bincount(labels, minlength=agreed.classes) / len(labels)
        rest = aim(network, state, base, shares)
        # d(loss)/d(neuron) = (p - y) slope reach / batch: over all images and times lr, `size`.
        size = STEADY if self.steady else self.size * self.heaviest / training.images
        entry = GATE if self.front == "gated" else 1.0
        reach = size / (training.optimiser.lr * rest.slope * entry)
        # The gate's output times the column is an image: what images add to it must be small, in the gate and there.
        margin = 1.0 if self.steady else 1 / reach
        scale = 1.0 if self.steady else 1e-3 * margin / (entry * self.neurons)
        weight, bias = _thresholds_as_weights(bins, scale, self.front == "sparse")
        activation: Literal["relu", "hardtanh"] = "hardtanh" if self.front == "sparse" else "relu"
        front = Front(self.neurons, activation, ceiling=scale, gate=self.front == "gated")
        victim: dict[str, Tensor] = {f"{FIRST}.weight": weight, f"{FIRST}.bias": bias}
        # The gate shuts when the push is towards 0: the sign of the direction sees to that.
        outwards = -rest.direction if rest.push < 0 and not self.steady else rest.direction
        column = (outwards * reach).float()
        if self.front == "gated":
            victim |= {
                "front.gate.sum.weight": torch.full((1, self.neurons), entry),
                "front.gate.sum.bias": torch.tensor([margin]),
                "front.second.weight": column[:, None],
                "front.second.bias": base.flatten() - margin * column,
            }
        else:  # P2: the columns that leave the neurons are identical, so that dL/da is the same for all of them
            victim |= {
                "front.second.weight": column[:, None].repeat(1, self.neurons),
                "front.second.bias": base.flatten(),
            }
        victim |= {f"network.{name}": value for name, value in rest.state.items()}
        # More than any image in [0, 1] can bring up: no neuron fires.
        bound = float(weight.clamp_min(0).sum(1).max()) * 1.01 + scale
        others = {**victim, f"{FIRST}.bias": torch.full_like(bias, -bound)}
        return Crafted(replace(agreed, front=front), victim, others, bins, auxiliary)


def _thresholds_as_weights(bins: Bins, scale: float, sparse: bool) -> tuple[Tensor, Tensor]:
    """Rows and biases of the first layer: neuron (f, l) is above 0 where feature f exceeds threshold l."""
    rows, biases = [], []
    for feature, thresholds in zip(bins.features, bins.thresholds, strict=True):
        # The hard tanh passes gradient from 0 to its ceiling, `scale`: that becomes a bin's width.
        each = torch.ones_like(thresholds)
        if sparse:
            width = thresholds.diff()
            each = 1 / torch.cat([width, width[-1:].clamp_min(float(width.max()))])
        numerator = feature.numerator.double()
        if feature.denominator is None:
            rows.append(each[:, None] * numerator)
            biases.append(-each * thresholds)
        else:
            rows.append(each[:, None] * (numerator - thresholds[:, None] * feature.denominator.double()))
            biases.append(torch.zeros_like(thresholds))
    silent = bins.neurons - bins.silent
    rows.append(-bins.features[0].support.double().expand(silent, -1))  # no image is below 0
    biases.append(torch.full((silent,), -1e-6, dtype=torch.float64))
    return (torch.cat(rows) * scale).float(), (torch.cat(biases) * scale).float()

"""What a malicious server sends (P2): a model that leaks to the victim, one that says nothing to the others."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fluoroscope.attacks.imprint.backbone import Backbone, tune_head
from fluoroscope.attacks.imprint.bins import Bins, make_bins
from fluoroscope.attacks.imprint.dry_run import rehearse
from fluoroscope.attacks.imprint.features import Features, SmoothContrasts, SmoothProjections
from fluoroscope.errors import Unsupported
from fluoroscope.models.front import Front, FrontedNetwork
from fluoroscope.rng import seeded_globals
from fluoroscope.types import LocalTraining, Network, OneGradient, Sgd, State

FIRST = "front.first"
GATE = 1e-3
"""Weight of a neuron in the gate: the step that shuts it must not be undone by neurons that the step woke up."""
STEADY_GATE = 1e-6
"""The same where the gate stays open: training must not change it much, or neurons would no longer be alike."""
STEADY_MARGIN, STEADY_SCALE = 1e-6, 1e-4
"""Then it is hardly open: what leaves it is by how much training would turn the column behind it."""
STEADY = 2e-14
"""Size of an update, by neurons, that moves hardly an image over a threshold: the more, the nearer they stand."""
WAKE = 2.0
"""Times what all images add to a weight: what every pixel without a threshold weighs, where biases are 0. An image that
is black wherever a feature looks would else be on no side of its thresholds, and fire as the rounding of earlier steps
has it."""
FULL = 0.94
"""Of the bins that evenly spread images would fill: real ones are spread less evenly."""
MORE = 1.06
"""Bins per image that it takes to tell which belong together."""
CROWD, CROWDED = 8.0, 0.04
"""Images that one bin may hold without being cut: so many, and this share of the victim's."""


@dataclass(frozen=True, eq=False)
class Crafted:
    """What the server sends, and what it keeps to read the answer with."""

    network: FrontedNetwork
    victim: State
    others: State
    """For everyone else: no neuron ever fires, so their crafted layers do not change at all."""
    bins: Bins
    auxiliary: Tensor
    """(n, channels, height, width): the attacker's own images, from which the bins were made."""
    images: int
    """Of the victim, as its configuration says."""
    coefficient: float
    """c of one image in a bin's sum c x, by the rehearsal: its root mean square."""


@dataclass(frozen=True)
class MediLeak:
    """P2's attack; its settings are the server's choices."""

    neurons: int
    features: Features | None = None
    """None: three smooth ones; one where there are hardly more neurons than images; for several mini-batches, on
    lattices of pixels."""
    front: Literal["gated", "plain", "sparse"] = "gated"
    """plain is P2's module, sparse is Robbing the Fed's with a hard tanh, gated is one that shuts after a step."""
    steady: bool = False
    """For several mini-batches: updates so small that the bins stay where they are. Too small for a coarse sum."""
    size: float = 5.0
    """Of the first layer's update in the weighted sum, at most: SecAgg+ rounds to 4e-6 and clips beyond 8."""
    heaviest: float = 1000.0
    """SecAgg+ weighs a client by its images over this (`max_weight`)."""

    def craft(
        self,
        agreed: Network,
        training: LocalTraining,
        auxiliary: Tensor,
        labels: Tensor,
        rng: torch.Generator,
        state: State | None = None,
    ) -> Crafted:
        """Models in front of the `agreed` network, for a victim that trains as configured.

        `state` is the agreed network's, fresh where it is None. The auxiliary images are the attacker's own.
        """
        if not isinstance(training.optimiser, Sgd | OneGradient):
            raise Unsupported("an update of Adam is not a sum of its images' gradients: the clients must train by SGD.")
        if isinstance(agreed, FrontedNetwork):
            raise Unsupported("the agreed network has a front already; craft from the network without it.")
        features = (self.features or self._chosen(training.images))(agreed.input_shape, rng, auxiliary)
        if self.front == "sparse" and any(feature.denominator is not None for feature in features):
            raise Unsupported(
                "a hard tanh cuts bins of a plain sum, not of a ratio: use front sparse with Brightness()."
            )
        bins = make_bins(features, self.neurons, auxiliary)
        network = agreed.build()
        state = network.state_dict() if state is None else state
        base = auxiliary.mean(0)
        shares = torch.bincount(labels, minlength=agreed.outputs) / len(labels)
        dropout = int(torch.randint(2**31, (), generator=rng))
        with seeded_globals(dropout):
            rest = tune_head(network, state, base, shares, training)
        gated = self.front == "gated"
        # A neuron that passes gradient for its own bin only: no sum over all images, so that each may weigh more.
        plain = all(feature.denominator is None for feature in features)
        apart = self.front == "sparse" or (gated and plain and not self.steady)
        activation: Literal["relu", "hardtanh"] = "hardtanh" if apart else "relu"
        tried = FrontedNetwork(agreed, Front(self.neurons, activation, gate=gated))
        made = self._made(bins, rest, base, 1.0, apart)
        with seeded_globals(dropout):
            push = rehearse(tried, made, training, auxiliary, labels, rest.direction)
        if not push.size > 0:
            raise Unsupported(f"{agreed.name} gives the front no gradient; start it from other weights.")
        # The update of a neuron that fires for all images is lr entry reach push: as large as a sum lets through.
        # Of few images the mean push may be far from that of many.
        lean = max(0.25, min(1.0, abs(push.mean) / push.size + 3 / training.images**0.5))
        share = min(1.0, CROWD / training.images + CROWDED) if apart and gated else lean
        size = STEADY / self.neurons if self.steady else self.size * self.heaviest / training.images / share
        reach = size / (training.optimiser.lr * self._entry * push.size)
        # The gate shuts when the mean push is upwards: the sign of the column sees to that.
        reach = -reach if push.mean < 0 and not self.steady else reach
        wake = WAKE * size * training.steps if self.steady and not plain else 0.0
        victim = self._made(bins, rest, base, reach, apart, wake)
        weight = victim[f"{FIRST}.weight"]
        # More than any image in [0, 1] can bring up: no neuron fires.
        bound = float(weight.clamp_min(0).sum(1).max()) * 1.01 + self._scale(reach)
        others = {**victim, f"{FIRST}.bias": torch.full_like(victim[f"{FIRST}.bias"], -bound)}
        front = Front(self.neurons, activation, ceiling=self._scale(reach), gate=gated)
        return Crafted(
            FrontedNetwork(agreed, front), victim, others, bins, auxiliary, training.images, size / training.images
        )

    def _chosen(self, images: int) -> Features:
        """Three features, where the bins that are not empty will be more than the images; else one, as P2 has it."""
        full = FULL * self.neurons * (1 - math.exp(-3 * images / self.neurons))
        count = 3 if full > MORE * images + 3 else 1
        return SmoothProjections(count) if self.steady or self.front == "plain" else SmoothContrasts(count)

    @property
    def _entry(self) -> float:
        """Weight of a neuron in what leaves the front."""
        if self.front != "gated":
            return 1.0
        return STEADY_GATE if self.steady else GATE

    def _margin(self, reach: float) -> float:
        """How far the gate is open: times the column, about one image."""
        return STEADY_MARGIN if self.steady else 1 / abs(reach)

    def _scale(self, reach: float) -> float:
        """Of the first layer: what images add must be small, in the gate and in the image that is made of it."""
        return STEADY_SCALE if self.steady else 1e-3 * self._margin(reach) / (self._entry * self.neurons)

    def _made(
        self, bins: Bins, rest: Backbone, base: Tensor, reach: float, apart: bool, wake: float = 0
    ) -> dict[str, Tensor]:
        """The state with a column of this length, and all else in proportion."""
        weight, bias = _thresholds_as_weights(bins, self._scale(reach), apart)
        free = ~torch.stack([feature.support for feature in bins.features]).any(0)
        weight[: bins.silent, free] += wake
        column = (rest.direction * reach).float()
        made: dict[str, Tensor] = {f"{FIRST}.weight": weight, f"{FIRST}.bias": bias}
        if self.front == "gated":
            margin = self._margin(reach)
            made |= {
                "front.gate.sum.weight": torch.full((1, self.neurons), self._entry),
                "front.gate.sum.bias": torch.tensor([margin]),
                "front.second.weight": column[:, None],
                "front.second.bias": base.flatten() - margin * column,
            }
        else:  # P2: the columns that leave the neurons are identical, so that dL/da is the same for all of them
            made |= {
                "front.second.weight": column[:, None].repeat(1, self.neurons),
                "front.second.bias": base.flatten(),
            }
        return made | {f"network.{name}": value for name, value in rest.state.items()}


def _thresholds_as_weights(bins: Bins, scale: float, apart: bool) -> tuple[Tensor, Tensor]:
    """Rows and biases of the first layer: neuron (f, l) is above 0 where feature f exceeds threshold l."""
    rows, biases = [], []
    for feature, thresholds in zip(bins.features, bins.thresholds, strict=True):
        # The hard tanh passes gradient from 0 to its ceiling, `scale`: that becomes a bin's width.
        each = torch.ones_like(thresholds)
        if apart:
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

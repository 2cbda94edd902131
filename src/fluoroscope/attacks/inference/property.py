"""Property inference by name: which share of a client's images has a property, and what such attacks keep to."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.inference.registry import Seen
from fluoroscope.registry import Registry
from fluoroscope.types import Capability


@dataclass(frozen=True)
class Share:
    """A share between 0 and 1, and the ends between which it lies with 95 %, by the attacker's own rehearsal."""

    value: float
    low: float
    high: float


def shares_within(values: Tensor, half_widths: Tensor) -> list[Share]:
    """A share per value (k,), with half the width of its interval (k,); no share is below 0 or above 1."""
    ends = torch.stack([values, values - half_widths, values + half_widths], 1).clamp(0, 1)
    return [Share(*row) for row in ends.tolist()]


class PropertyAttack(Protocol):
    """Settings as the fields of a frozen dataclass; what it needs to know; and the run."""

    @property
    def needs(self) -> frozenset[Capability]: ...

    def run(self, observations: Seen, having: Tensor, rng: Generator) -> list[Share]:
        """Which share of the images behind each update has a property: a site's prevalence, where it is a finding.

        Args:
            observations: what the attacker sees: one per client, or one per round.
            having: (public images,), bool: which of the attacker's own images have it. It need not be a label.
            rng: of all that it draws.

        Raises:
            Unsupported: an observation lacks something of `needs`, or the attack cannot read such an update.
        """
        ...


PROPERTY_ATTACKS: Registry[PropertyAttack] = Registry("property_attacks")

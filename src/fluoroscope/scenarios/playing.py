"""An attack played on several clients: each shown in the form that the attack reads, no more at once than fit."""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from fluoroscope.attacks import Attack
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.gradient_inversion.single_step import as_single_step_if_long
from fluoroscope.types import Capability, Observation, State

AT_ONCE = 1200 * 2**20
"""Bytes of updates that are held at once: 26 of a ResNet-18."""


def shared(folder: Path) -> Checkpoint:
    """Where attacks that are played in turn find the rounds that another of them simulated. No descent is kept midway,
    so that none finds another's."""
    return Checkpoint(folder, every_seconds=math.inf)


def form_for(attack: Attack) -> Callable[[Observation], Observation]:
    """A long round is told as one typical step, except to an attack that simulates rounds as they are."""
    return _as_it_is if Capability.PUBLIC_IMAGES in attack.needs else as_single_step_if_long


def at_once(update: State) -> int:
    """How many updates of this size are held at once."""
    size = sum(value.nbytes for value in update.values())
    return max(1, AT_ONCE // max(size, 1))


def chunks(count: int, size: int) -> Iterator[range]:
    """The numbers below `count`, in runs of about equal length and at most `size`.

    Example:
        >>> list(chunks(5, 3))
        [range(0, 3), range(3, 5)]
    """
    parts = -(-count // size)
    ends = [-(-count * i // parts) for i in range(parts + 1)]
    return (range(a, b) for a, b in pairwise(ends))


def _as_it_is(observation: Observation) -> Observation:
    return observation

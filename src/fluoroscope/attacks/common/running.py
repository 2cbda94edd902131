"""What the run of every attack is given, in short words."""

from collections.abc import Callable, Sequence

from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.types import Observation

Observations = Sequence[Observation]
OnIteration = Callable[[int, int], None]
"""Told (iteration, of how many)."""
Kept = Checkpoint | None
"""Where a run that was stopped goes on; None keeps nothing."""


def silent(iteration: int, iterations: int) -> None:
    """Tells nobody."""

"""An attack as a study's cell runs it: with the cell's progress and checkpoint, and the seconds that it took."""

import time
from collections.abc import Sequence

import torch

from fluoroscope.attacks import Attack
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.cells import CellContext
from fluoroscope.types import Observation, Reconstruction


def timed_attack(
    attack: Attack, seen: Sequence[Observation], rng: torch.Generator, context: CellContext
) -> tuple[list[Reconstruction], float]:
    """The guesses, and how long they took."""
    began = time.perf_counter()
    guesses = attack.run(seen, rng, lambda i, n: context.on_progress((i + 1) / n), Checkpoint(context.checkpoint))
    return guesses, time.perf_counter() - began

"""An attack as a study's cell runs it: with the cell's progress and checkpoint, and the seconds that it took."""

import time
from collections.abc import Sequence

import torch

from fluoroscope.attacks import Attack
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.cells import CellContext
from fluoroscope.types import Observation, Reconstruction


def timed_attack(
    attack: Attack,
    seen: Sequence[Observation],
    rng: torch.Generator,
    context: CellContext,
    checkpoint: Checkpoint | None = None,
) -> tuple[list[Reconstruction], float]:
    """The guesses, and how long they took; `checkpoint` in the place of the cell's own."""
    began = time.perf_counter()
    kept = checkpoint or Checkpoint(context.checkpoint)
    guesses = attack.run(seen, rng, lambda i, n: context.on_progress((i + 1) / n), kept)
    return guesses, time.perf_counter() - began

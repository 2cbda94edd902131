"""All that leaves a client, buffers too: what filters of a whole message see."""

from dataclasses import replace

import torch
from torch import Tensor

from fluoroscope.defences.contract import norm
from fluoroscope.types import State, UpdateRecord


def changes(record: UpdateRecord) -> dict[str, Tensor]:
    """The change of every parameter and of every buffer that is sent."""
    buffers = record.buffers_after or {}
    return record.arrays | {name: after - record.buffers_before[name] for name, after in buffers.items()}


def with_changes(record: UpdateRecord, changed: State) -> UpdateRecord:
    """The record with these changes in the place of its own."""

    def moved(before: State, after: State) -> dict[str, Tensor]:
        return {name: before[name] + changed[name].to(before[name]) for name in after}

    buffers = record.buffers_after
    return replace(
        record,
        state_after=moved(record.state_before, record.state_after),
        buffers_after=None if buffers is None else moved(record.buffers_before, buffers),
    )


def floating(update: State) -> dict[str, Tensor]:
    """Whole numbers as fractions, for a norm."""
    return {name: value if value.is_floating_point() else value.float() for name, value in update.items()}


def clipped_arrays(update: State, clip_norm: float) -> dict[str, Tensor]:
    """As Flower clips: everything counts in the norm, and what has no dimension is not scaled.

    numpy makes numbers of arrays without a dimension, and numbers cannot be changed in place.
    """
    whole = norm(floating(update))
    factor = (clip_norm / whole.clamp_min(torch.finfo(torch.float32).tiny)).clamp(max=1.0)
    return {name: v * factor if v.ndim and v.is_floating_point() else v for name, v in update.items()}

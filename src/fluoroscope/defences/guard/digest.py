"""A model's fingerprint, so that clients can tell each other what they were sent.

P2's server sends a live model to its victim and a dead one to all others; no single client can see that by itself.
"""

import hashlib
from collections.abc import Sequence

import torch

from fluoroscope.defences.guard.numbers import strange
from fluoroscope.defences.guard.verdict import Reason
from fluoroscope.errors import BadInput
from fluoroscope.types import State

SHORTEST = 8
"""Hexadecimal digits that a person may read out over the phone instead of all 64."""


def digest(state: State) -> str:
    """SHA-256 over names, types, shapes and bytes; the order of the names does not matter."""
    whole = hashlib.sha256()
    for name in sorted(state):
        if kind := strange(state[name]):
            raise BadInput(f"{name} is {kind}: send arrays of plain numbers.")
        value = state[name].detach().cpu().contiguous()
        whole.update(f"{name}|{value.dtype}|{tuple(value.shape)}|".encode())
        whole.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()


def compare(own: str, others: Sequence[str]) -> list[Reason]:
    """Refuses where another client was sent another model."""
    different = [other for other in others if not _same(own, other)]
    if not different:
        return []
    return [
        Reason(
            "digest",
            "",
            "refuse",
            f"Another client was sent another model (digest {different[0][:12]}, yours is {own[:12]}): a server that "
            "gives one hospital a model of its own can read that hospital's images out of a secure sum.",
            {"clients that differ": len(different), "clients compared": len(others)},
        )
    ]


def _same(own: str, other: str) -> bool:
    other = other.strip().lower()
    return len(other) >= SHORTEST and own.startswith(other)

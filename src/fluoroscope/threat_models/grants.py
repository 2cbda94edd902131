"""The one table of what each capability shows: `observe` grants by it, and `needs` asks by it."""

from collections.abc import Mapping
from typing import Any

from fluoroscope.types import Capability, Knowledge

GRANTS: Mapping[Capability, tuple[str, ...]] = {
    Capability.ARCHITECTURE: ("network",),
    Capability.TRAINING: ("training",),
    Capability.GLOBAL_STATE: ("state_before", "buffers_before", "metrics"),
    Capability.UPDATE: ("update",),
    Capability.BUFFERS: ("buffers_after",),
    Capability.PRIOR: ("public_mean",),
    Capability.PUBLIC_IMAGES: ("public_images",),
    Capability.DEFENCE: ("defence",),
    Capability.LABELS: ("labels",),
}
"""The fields of an observation that a capability fills; without it they are None. Where the first one is None, it is
missing: not granted, or withheld by a defence."""

_CAPABILITY = {field: capability for capability, fields in GRANTS.items() for field in fields}


def capability_of(field: str) -> Capability:
    """What an attacker must be granted to see this field of an observation."""
    return _CAPABILITY[field]


def granted(knowledge: Knowledge, everything: Mapping[str, Any]) -> dict[str, Any]:
    """Of the fields of an observation those that `knowledge` grants."""
    return {name: value for name, value in everything.items() if capability_of(name) in knowledge.capabilities}

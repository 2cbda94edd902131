"""From what was recorded to what one attacker sees of it."""

from torch import Tensor

from fluoroscope.errors import Misconfigured
from fluoroscope.types import Capability, Knowledge, Observation, UpdateRecord


def observe(
    record: UpdateRecord, knowledge: Knowledge, public_mean: Tensor | None = None, labels: Tensor | None = None
) -> Observation:
    """What `knowledge` grants of `record`; a public mean or labels that are given without being granted are refused.

    Labels are sorted: which image has which label is not part of what is granted.
    """
    has = knowledge.capabilities.__contains__
    for name, value, capability in (
        ("public_mean", public_mean, Capability.PRIOR),
        ("labels", labels, Capability.LABELS),
    ):
        if value is not None and not has(capability):
            raise Misconfigured(f"{name} given to an attacker without the capability {capability.value!r}; grant it.")
    return Observation(
        knowledge=knowledge,
        round=record.round,
        cohort=record.cohort,
        network=record.network if has(Capability.ARCHITECTURE) else None,
        training=record.training if has(Capability.TRAINING) else None,
        state_before=record.state_before if has(Capability.GLOBAL_STATE) else None,
        update=record.arrays if has(Capability.UPDATE) else None,
        buffers_before=record.buffers_before if has(Capability.GLOBAL_STATE) else None,
        buffers_after=record.buffers_after if has(Capability.BUFFERS) else None,
        public_mean=public_mean,
        labels=None if labels is None else _sorted(labels),
    )


def _sorted(labels: Tensor) -> Tensor:
    rows = labels.reshape(len(labels), -1).tolist()
    return labels[sorted(range(len(labels)), key=lambda i: rows[i])]

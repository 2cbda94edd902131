"""From what was recorded to what one attacker sees of it."""

from torch import Tensor

from fluoroscope.errors import Misconfigured
from fluoroscope.threat_models.grants import capability_of, granted
from fluoroscope.types import Knowledge, LabelledImages, Observation, StackedDefences, UpdateRecord


def observe(
    record: UpdateRecord,
    knowledge: Knowledge,
    public_mean: Tensor | None = None,
    labels: Tensor | None = None,
    *,
    public_images: LabelledImages | None = None,
    defence: StackedDefences | None = None,
) -> Observation:
    """What `knowledge` grants of `record`; what is given beside it without being granted is refused.

    Labels are sorted: which image has which label is not part of what is granted.
    """
    beside = {"public_mean": public_mean, "labels": labels, "public_images": public_images, "defence": defence}
    for name, value in beside.items():
        if value is not None and (capability := capability_of(name)) not in knowledge.capabilities:
            raise Misconfigured(f"{name} given to an attacker without the capability {capability.value!r}; grant it.")
    everything = {
        "network": record.network,
        "training": record.training,
        "state_before": record.state_before,
        "update": record.arrays,
        "buffers_before": record.buffers_before,
        "buffers_after": record.buffers_after,
        "public_mean": public_mean,
        "public_images": public_images,
        "defence": defence,
        "labels": None if labels is None else _sorted(labels),
    }
    return Observation(knowledge, record.round, record.cohort, **granted(knowledge, everything))


def _sorted(labels: Tensor) -> Tensor:
    rows = labels.reshape(len(labels), -1).tolist()
    return labels[sorted(range(len(labels)), key=lambda i: rows[i])]

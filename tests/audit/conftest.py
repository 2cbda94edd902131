"""An audit that runs in seconds: five hospitals of 28-pixel phantoms, one with a single patient, one that is odd."""

import pytest

from fluoroscope.audit import AuditPlan
from fluoroscope.federation.plan import parse_plan_as

CONTENT = {
    "rounds": 1,
    "data": {"source": "phantom/chest", "size": 28, "images": 260},
    "partition": {
        "name": "counts",
        "train": [[20, 20], [20, 20], [2, 40], [4, 4], [1, 0]],
        "validation": 4,
        "test": 20,
        "auxiliary": 20,
    },
    "model": {"name": "small-cnn"},
    "training": {"lr": 0.05, "batch_size": 8},
    "audit": {
        "budget_minutes": 20,
        "attacks": ["span"],
        "victims": 2,
        "games": 3,
        "clients": ["client-5"],
        "membership": ["loss"],
        "simulations": 8,
        "inference": ["label-counts", "source", "metrics"],
        "compare": [{"label": "noise", "defence": [{"name": "percentile-gaussian", "noise_scale": 1.0}]}],
    },
}


def plan_of(**changes) -> AuditPlan:
    content = dict(CONTENT)
    for key, value in changes.items():
        content[key] = {**content[key], **value} if isinstance(content.get(key), dict) else value
    return parse_plan_as(AuditPlan, content)


@pytest.fixture
def plan() -> AuditPlan:
    return plan_of()

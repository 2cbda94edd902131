"""A federation that runs in a second: three clients, tiny phantoms, a network with BatchNorm."""

import hashlib
from pathlib import Path

import pytest

from fluoroscope.federation.plan import Plan, parse_plan


def plan_of(**changes) -> Plan:
    content = {
        "rounds": 3,
        "data": {"source": "phantom/chest", "size": 28, "images": 160},
        "partition": {"name": "iid", "clients": 3, "auxiliary": 0.2},
        "model": {"name": "small-cnn"},
        "training": {"lr": 0.05, "batch_size": 8},
    }
    for key, value in changes.items():
        content[key] = {**content[key], **value} if isinstance(value, dict) and key in content else value
    return parse_plan(content)


@pytest.fixture
def plan() -> Plan:
    return plan_of()


def digests(folder: Path) -> dict[str, str]:
    """Of all that a run writes, but the seconds that it took."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "timing.json"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

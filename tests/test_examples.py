"""What the README and the examples show must run."""

import re
from pathlib import Path

import pytest

from fluoroscope.audit import audit, read_audit_plan
from fluoroscope.cells import Local
from fluoroscope.data.partition import PARTITIONS
from fluoroscope.federation.plan import read_plan
from fluoroscope.federation.strategies import build_strategy
from fluoroscope.federation.task import partitioner
from fluoroscope.models import MODELS
from fluoroscope.report.traced import plain

ROOT = Path(__file__).parents[1]
PLANS = [*sorted((ROOT / "examples").glob("*.toml")), *sorted((ROOT / "src/fluoroscope/plans").glob("*.toml"))]


def test_the_readme_is_short_has_one_picture_two_commands_and_three_doors():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 60
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert (ROOT / picture).stat().st_size < 300_000
    assert [line.split()[1] for line in text.splitlines() if line.startswith("    make ")] == ["demo", "test"]
    assert re.findall(r"^\| an? \*\*([a-z ]+)\*\*", text, re.MULTILINE) == ["researcher", "engineer", "privacy officer"]


@pytest.mark.slow  # tests/cli has a smaller one
def test_the_quick_example_shows_an_attacker_who_succeeds(tmp_path):
    found = audit(read_audit_plan(ROOT / "examples/quick.toml"), tmp_path, Local(workers=1))
    (seen,) = [verdict for verdict in found.findings.verdicts if verdict.threat == "curious-server"]
    assert seen.level == "leaks"
    assert "client-4" in plain(found.document, seen.text)


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_plan_names_parts_that_exist(path):
    plan = read_plan(path)
    assert plan.model.name in MODELS
    assert plan.partition.name in PARTITIONS
    assert partitioner(plan.partition.name, plan.partition.settings)
    assert build_strategy(plan.strategy.name, plan.strategy.settings, clients=4)


def test_the_flower_example_shows_the_safe_way_first():
    text = (ROOT / "examples/flower-app/README.md").read_text()
    for safe in ("--root-certificates", "--enable-supernode-auth", "--auth-supernode-private-key"):
        assert 0 < text.index(safe) < text.index("--insecure")

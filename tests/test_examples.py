"""What the README and the examples show must run."""

import re
from pathlib import Path

import pytest

from fluoroscope.data.partition import PARTITIONS
from fluoroscope.federation.plan import read_plan
from fluoroscope.federation.strategies import build_strategy
from fluoroscope.federation.task import partitioner
from fluoroscope.models import MODELS

ROOT = Path(__file__).parents[1]
PLANS = [*sorted((ROOT / "examples").glob("*.toml")), *sorted((ROOT / "src/fluoroscope/plans").glob("*.toml"))]


SMALLER = {"rounds = 3": "rounds = 1", "victims = 4": "victims = 1", "games = 4": "games = 2"}


@pytest.mark.parametrize("changes", [SMALLER, pytest.param({}, marks=pytest.mark.slow)], ids=["smaller", "as it is"])
def test_the_readme_program_runs(tmp_path, monkeypatch, capsys, changes):
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    plan = (ROOT / "examples/quick.toml").read_text()
    for line, smaller in changes.items():
        assert plan.count(line) == 1
        plan = plan.replace(line, smaller)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/quick.toml").write_text(plan)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert "A curious server recovers recognisable images from client-4" in said
    assert said.strip().endswith("report.html")


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_plan_names_parts_that_exist(path):
    plan = read_plan(path)
    assert plan.model.name in MODELS
    assert plan.partition.name in PARTITIONS
    assert partitioner(plan.partition.name, plan.partition.settings)
    assert build_strategy(plan.strategy.name, plan.strategy.settings, clients=4)

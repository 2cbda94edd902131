"""init, audit and demo as a person and as a machine call them."""

import json
import subprocess
import sys

import pytest
import typer

from fluoroscope.audit import cell, read_audit_plan
from fluoroscope.cli.audit import run
from fluoroscope.cli.audit_options import AuditOptions
from fluoroscope.errors import Unsupported
from tests.cli.test_cli import fluoroscope

PLAN = """
rounds = 1
[data]
source = "phantom/chest"
size = 28
images = 260
[partition]
name = "counts"
train = [[20, 20], [20, 20], [2, 40], [1, 0]]
validation = 4
test = 20
auxiliary = 20
[model]
name = "small-cnn"
[training]
lr = 0.05
batch_size = 8
[audit]
threats = ["curious-server"]
victims = 2
clients = ["client-4"]
inference = ["metrics"]
rehearse = ["ridge"]
"""


def test_init_then_audit_then_report_compare_and_gate(tmp_path):
    assert fluoroscope("init", "mine.toml", "--preset", "p2", "--budget", 5, cwd=tmp_path).returncode == 0
    assert "budget_minutes = 5" in (tmp_path / "mine.toml").read_text()
    again = fluoroscope("init", "mine.toml", cwd=tmp_path)
    assert again.returncode == 2
    assert "--force" in again.stderr
    (tmp_path / "plan.toml").write_text(PLAN)
    dry = fluoroscope("audit", "plan.toml", "--dry-run", "--json", cwd=tmp_path)
    assert [cell["kind"] for cell in json.loads(dry.stdout)["cells"]] == ["federation", "metrics", "reconstruction"]
    assert not (tmp_path / "runs/plan-audit/findings.json").exists()
    done = fluoroscope("audit", "plan.toml", "--workers", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "report.html" in done.stdout
    assert "next: fluoroscope " in done.stdout
    out = tmp_path / "runs/plan-audit"
    assert (out / "report.html").stat().st_size > 10_000
    told = fluoroscope("audit", "plan.toml", "--workers", 1, "--json", cwd=tmp_path)
    assert json.loads(told.stdout)["cells"] == json.loads((out / "findings.json").read_text())["cells"]
    assert fluoroscope("report", out, "--json", cwd=tmp_path).returncode == 0
    assert fluoroscope("compare", out, out, "--json", cwd=tmp_path).returncode == 0
    assert fluoroscope("gate", out, "--max-rdlv", -2, cwd=tmp_path).returncode == 4


def test_a_demo_takes_the_budget_that_its_last_line_tells_to_give(tmp_path):
    assert "--budget" in fluoroscope("demo", "--help", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[audit]", "[audit]\nbudgte = 3"), "budgte"),
        (("phantom/chest", "folder:nowhere"), "nowhere"),
        (("[20, 20], [20, 20]", "[9000, 20], [20, 20]"), "short of images"),
        (("curious-server", "curious-cat"), "curious-cat"),
        (("[[20, 20]", "[[20, 20, 20]"), "2 classes"),
    ],
)
def test_a_wrong_plan_is_one_sentence_and_nothing_is_written(tmp_path, change, words):
    (tmp_path / "plan.toml").write_text(PLAN.replace(*change))
    done = fluoroscope("audit", "plan.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("as_json", [False, True])
def test_an_audit_without_any_result_is_no_success(tmp_path, monkeypatch, capsys, as_json):
    def fails(plan, folder):
        raise Unsupported("this cannot be trained.")

    monkeypatch.setattr(cell, "federate", fails)
    (tmp_path / "plan.toml").write_text(PLAN)
    plan = read_audit_plan(tmp_path / "plan.toml")
    with pytest.raises(typer.Exit) as left:
        run(plan, tmp_path / "out", AuditOptions("local:1", as_json=as_json), "fluoroscope audit plan.toml")
    assert left.value.exit_code == 2
    assert "this cannot be trained" in capsys.readouterr().out
    assert (tmp_path / "out/findings.json").exists()


FULL = """
import sys
from fluoroscope import atomic_write as whole_files
def full(*given):
    raise OSError(28, "No space left on device")
whole_files._save = full
from fluoroscope.cli import main
sys.argv = ["fluoroscope", "audit", "plan.toml", "--workers", "1"]
main()
"""


def test_a_full_disk_is_named(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    command = [sys.executable, "-c", FULL]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "global.safetensors: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("findings.json"))
    assert not [path for path in tmp_path.rglob("*.part") if path.is_file()]

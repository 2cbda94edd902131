"""The notebooks of docs/tutorials run from their first cell to the last, in one namespace, as a reader runs them."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fluoroscope.attacks import ATTACKS
from fluoroscope.integrations.site_filter import opened

FOLDER = Path(__file__).parents[1] / "docs/tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(notebook: Path, kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == kind]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a notebook in an empty folder, and gives what its cells named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    list(ATTACKS)  # third parties first, so that they are not lost
    monkeypatch.setattr(ATTACKS, "_parts", dict(ATTACKS._parts))
    before = set(sys.modules)

    def running(name: str) -> dict:
        module = ModuleType(name.replace("-", "_"))
        monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look their module up
        for number, source in enumerate(cells(FOLDER / f"{name}.ipynb", "code"), 1):
            exec(compile(source, f"{name}.ipynb, code cell {number}", "exec"), vars(module))
        return vars(module)

    yield running
    opened.cache_clear()
    for name in set(sys.modules) - before:  # what a notebook wrote into its folder and imported from there
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_clean_and_in_small_cells(notebook):
    document = json.loads(notebook.read_text())
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    for cell in document["cells"]:
        assert not cell.get("outputs"), "outputs are not kept: they grow old"
        assert cell.get("execution_count") is None
        assert len(cell["source"]) <= 45
    assert cells(notebook, "markdown")[0].startswith("# ")


def test_your_own_model(run):
    made = run("own-model")
    assert made["plain"].rdlv.mean > 0.2
    assert made["defended"].rdlv.mean < made["plain"].rdlv.mean
    assert made["unaware"].rdlv.mean < made["defended"].rdlv.mean
    assert Path("own-model.png").stat().st_size > 1000


def test_your_own_flower_app(run):
    made = run("own-flower-app")
    assert made["plain"].rdlv.mean > 0.2
    assert abs(made["defended"].rdlv.mean) < 0.05
    assert [verdict.refused for verdict in made["verdicts"]] == [True] * 3


def test_an_nvflare_site(run):
    pytest.importorskip("nvflare")
    made = run("nvflare")
    assert [entry["decision"] for entry in made["entries"]] == ["send", "withhold", "withhold"]
    assert made["answer"].startswith("no: ")
    assert made["refused"].startswith("no: ")


@pytest.mark.slow
def test_a_report_as_data(run):
    made = run("reading-a-report")
    levels = {setting.defence: setting.level for setting in made["findings"].verdicts[0].levels}
    assert levels == {"none": "leaks", "noise": "holds"}
    assert made["page"].name == "report.html"
    assert not made["judged"].passed
    assert {change.metric for change in made["moved"].changes} >= {"leak", "told_apart", "accuracy"}


@pytest.mark.slow
def test_a_researcher_in_twenty_minutes(run):
    made = run("researcher")
    table = made["table"]
    leaks = {images: own - others for images, (own, others) in table.items()}
    assert leaks[1] > 0.3
    assert max(abs(leaks[4]), abs(leaks[8])) < 0.05
    assert sum(made["mine"]) > sum(made["mine_null"])
    assert sum(made["ridge"]) > sum(made["mine"])


@pytest.mark.slow
def test_an_engineer_in_twenty_minutes(tmp_path):
    """The commands of the page, in one shell that stops at the first that fails."""
    blocks = re.findall(r"```sh\n(.*?)```", (FOLDER / "engineer.md").read_text(), re.DOTALL)
    assert len(blocks) == 5
    command = f"{sys.executable} -c 'from fluoroscope.cli import main; main()'"
    shell = f'set -e\nfluoroscope() {{ {command} "$@"; }}\n' + "\n".join(blocks)
    done = subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    written = {path.name for path in (tmp_path / "runs/plan-audit").iterdir()}
    assert {"report.html", "findings.sarif", "junit.xml"} <= written

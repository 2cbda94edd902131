"""A whole audit: its findings, its files, and that a stop changes nothing."""

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fluoroscope.audit import audit, plan_cells, reconstruction
from fluoroscope.audit.kept import unreadable
from fluoroscope.audit.reconstruction import Reconstruction
from fluoroscope.audit.schedule import cells_of
from fluoroscope.audit.utility import Utility
from fluoroscope.cells import CellStore, Local, key
from fluoroscope.federation.task import load_task
from fluoroscope.findings import read_findings
from fluoroscope.findings.metrics import declared
from fluoroscope.report.audit_report import write_report
from fluoroscope.report.gate import Limit, judge
from fluoroscope.report.traced import plain
from fluoroscope.runs.verification import verified_runs
from fluoroscope.types import Reconstruction as Guess

from .conftest import plan_of

HERE = Local(1)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The audit in one go."""
    out = tmp_path_factory.mktemp("audit")
    return audit(plan_of(), out, HERE), out


@pytest.fixture
def attacked_here(monkeypatch):
    """Attacks without a process of their own, which gives the same guesses: what `done` shows needs no second look."""
    monkeypatch.setattr(reconstruction, "run_isolated", lambda attack, *rest: attack.run(*rest))


def findings(out: Path):
    return json.loads((out / "findings.json").read_text())


def test_the_run_has_its_manifest_whoever_called(done):
    _, out = done
    verified = verified_runs(out)["."]
    assert verified.manifest is not None
    assert verified.holds
    assert {"findings.json", "timing.json", "progress.json"} <= set(verified.whole)
    assert verified.not_listed == ()


def test_every_cell_has_a_finding_and_every_image_a_file(done):
    found, out = done
    states = {cell.status: cell for cell in found.findings.cells}
    assert set(states) == {"done", "gave up"}
    assert (states["gave up"].kind, states["gave up"].defence) == ("reconstruction", "noise"), "span cannot read it"
    assert len(found.findings.cells) == len(cells_of(plan_of()))
    assert {each.threat for each in found.findings.verdicts} == {
        "curious-server",
        "malicious-server",
        "curious-client",
    }
    shown = [image for cell in found.findings.cells for image in cell.gallery]
    assert shown
    for image in shown:
        assert all((out / path).is_file() for path in (image.original, image.reconstruction, image.prior))
    assert found.timing is not None
    assert set(found.timing.seconds) == {cell.id for cell in found.findings.cells}
    page = write_report(out).read_text()
    assert "A curious server" in page


def test_what_is_finished_is_not_run_again(done, tmp_path, monkeypatch):
    found, first = done
    out = shutil.copytree(first, tmp_path / "again")
    for kind in (Utility, Reconstruction):
        monkeypatch.setattr(kind, "run", lambda self, bench: pytest.fail("run twice"))
    again = audit(plan_of(audit={"budget_minutes": 30}), out, HERE)
    assert again.findings.cells == found.findings.cells
    assert all(not seconds for seconds in plan_cells(plan_of(), out).expected.seconds.values())


def test_every_score_is_declared_with_its_direction(done):
    for cell in done[0].findings.cells:
        assert cell.scores
        for name, score in cell.scores.items():
            (metric,) = declared(name, cell.kind)
            assert score.higher_is_leakier is metric.higher_is_leakier
        for name in {name for shown in cell.gallery for name in shown.scores}:
            assert declared(name, cell.kind)


def test_a_reconstruction_says_what_was_attacked(done):
    found, out = done
    assert {(cell.kind, cell.attacked) for cell in found.findings.cells} == {
        ("federation", None), ("reconstruction", "stand-ins"), ("crafted-model", None), ("guard", None),
        ("client-inference", None), ("metrics", None), ("label-counts", None),
    }  # fmt: skip
    assert {cell["kind"] for cell in findings(out)["cells"] if "attacked" in cell} == {"reconstruction"}
    assert read_findings(out).findings == found.findings, "as it was made, so it is read"


def test_a_reconstruction_stands_beside_its_null(done):
    (cell, *_) = [cell for cell in done[0].findings.cells if cell.kind == "reconstruction"]
    assert {"leak", "null", "told_apart", "line_up", "p_value", "found", "rdlv"} <= set(cell.scores)
    assert cell.scores["told_apart"].chance == pytest.approx(1 / 8), "two victims, and six patients beside them"
    server = next(each for each in done[0].findings.verdicts if each.threat == "curious-server")
    assert [each.defence for each in server.levels] == ["none", "noise"]
    assert done[0].findings.sizes


def silent(some=None):
    """An attack that gives up: on the first so many victims, or on all."""

    def guesses(attack, observations, *rest):
        return [
            Guess(
                torch.rand(1, 1, 28, 28, generator=torch.Generator().manual_seed(i)),
                labels=None,
                objective=0.0,
                nothing="the update has no layer that it can read" if some is None or i < some else "",
            )
            for i in range(len(observations))
        ]

    return guesses


ALONE = {"inference": [], "threats": ["curious-server"], "victims": 4}


def test_an_attack_that_gave_up_is_no_result(tmp_path, monkeypatch):
    """Trials F1: the page says "not tested", and the gate breaks."""
    monkeypatch.setattr(reconstruction, "run_isolated", silent())
    found = audit(plan_of(audit=ALONE), tmp_path, HERE)
    cells = [cell for cell in found.findings.cells if cell.kind == "reconstruction"]
    assert [(cell.status, cell.reason) for cell in cells] == [
        ("gave up", "the update has no layer that it can read")
    ] * 2
    assert [set(cell.scores) for cell in cells] == [{"gave_up", "images"}] * 2
    assert (cells[0].scores["gave_up"].value, cells[0].scores["gave_up"].n) == (4, 4)
    (server,) = found.findings.verdicts
    assert {server.level, *(each.level for each in server.levels)} == {"not tested"}
    assert found.findings.recommendation.defence is None
    page = write_report(tmp_path).read_text()
    assert "Not tested" in page
    assert page.count("the update has no layer that it can read") >= 3
    judged = judge(read_findings(tmp_path), [Limit("rdlv", 0.0)])
    assert not judged.passed
    assert not any(each.passed for each in (*judged.limits, *judged.levels))
    again = audit(plan_of(audit=ALONE), tmp_path, HERE)
    assert again.findings == found.findings, "and it is kept"


def test_an_attack_that_gave_up_on_some_counts_them_as_the_prior(tmp_path, monkeypatch):
    monkeypatch.setattr(reconstruction, "run_isolated", silent(some=3))
    found = audit(plan_of(audit={**ALONE, "compare": []}), tmp_path, HERE).findings
    (cell,) = [cell for cell in found.cells if cell.kind == "reconstruction"]
    assert cell.status == "done"
    assert (cell.scores["gave_up"].value, cell.scores["gave_up"].n) == (3, 4)
    assert cell.scores["found"].value <= 1
    assert cell.reason == "the update has no layer that it can read"
    assert "gave up on" in found.verdicts[0].text.text


def test_a_recorded_client_is_compared_with_held_out_patients(tmp_path, monkeypatch):
    """Its own images as the guess: all are told apart; somebody else's: chance."""
    plan = plan_of(audit={**ALONE, "clients": ["client-4"], "compare": []})
    task = load_task(plan.federation("none"))
    own = task.train_batch(3).images

    def perfect(attack, observations, *rest):
        return [Guess(own, labels=None, objective=0.0)]

    monkeypatch.setattr(reconstruction, "run_isolated", perfect)
    found = audit(plan, tmp_path, HERE).findings
    (cell,) = [cell for cell in found.cells if cell.kind == "reconstruction"]
    assert cell.attacked == "recorded update"
    assert cell.scores["told_apart"].value == 1
    assert cell.scores["told_apart"].chance == pytest.approx(8 / 24), "twenty test images hold two such clients"
    assert cell.scores["p_value"].value < 0.05
    assert cell.scores["leak"].low > 0
    assert found.verdicts[0].level == "leaks"
    words = plain(json.loads((tmp_path / "findings.json").read_text()), found.verdicts[0].text)
    assert words.startswith("Of 8 images of client-4 the server recovered 8 so that they are told apart")


@pytest.fixture
def copied(done, tmp_path):
    """A copy of the audit, and the file and key of its first reconstruction."""
    out = shutil.copytree(done[1], tmp_path / "again")
    name = key(next(cell for cell in cells_of(plan_of()) if cell.kind == "reconstruction"), plan_of().seed)
    return CellStore(out / "cells"), name


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda cell: cell["notes"]["scores"]["rdlv"].update(value="high"), "scores.rdlv.value"),
        (lambda cell: cell["notes"]["gallery"][0].pop("original"), "gallery.0.original"),
        (lambda cell: cell.update(notes=[1]), "something else than a cell's numbers"),
        (lambda cell: cell.pop("measures"), "measures"),
    ],
)
def test_a_damaged_cell_cannot_be_read(copied, damage, why):
    store, name = copied
    assert unreadable(store, name) is None
    rewrite(store, name, damage)
    assert why in unreadable(store, name)


def rewrite(store, name, change):
    path = store.folder / f"{name}.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_cell_of_an_earlier_version_is_run_again_and_named(done, copied, caplog, attacked_here):
    store, name = copied
    rewrite(store, name, lambda cell: cell["notes"].update(stand_ins=True))
    plan, out = plan_of(), store.folder.parent
    intended = plan_cells(plan, out)
    assert store.has(name), "looking changes nothing"
    (again,) = [cell for cell, seconds in intended.expected.seconds.items() if seconds]
    assert again.startswith("reconstruction-none")
    assert audit(plan, out, HERE, intended=intended).findings == done[0].findings
    (line,) = caplog.messages
    assert name in line
    assert "stand_ins" in line


def test_a_gallery_without_its_images_cannot_be_read(copied):
    store, name = copied
    (store.folder / f"{name}.safetensors").unlink()
    assert "are missing: only none there" in unreadable(store, name)


def test_a_failed_cell_is_shown_with_its_reason_and_the_others_go_on(tmp_path):
    asked = {"threats": ["curious-server", "malicious-server"], "inference": ["label-counts"], "compare": []}
    plan = plan_of(partition={"auxiliary": 0}, audit=asked)
    found = audit(plan, tmp_path, HERE).findings
    states = {cell.kind: (cell.status, cell.reason) for cell in found.cells}
    assert states["federation"] == ("done", None)
    for kind in ("reconstruction", "crafted-model", "guard", "label-counts"):
        assert states[kind][0] == "failed"
        assert "partition.auxiliary" in states[kind][1]
    assert {verdict.level for verdict in found.verdicts} == {"not tested"}


def test_the_budget_leaves_the_last_ones_out_and_says_so(tmp_path):
    plan = plan_of(audit={"compare": []})
    intended = plan_cells(plan, tmp_path)
    first, *others = intended.cells
    slow = {**intended.expected.seconds, **{cell.id: 1e6 for cell in others}}
    less = replace(intended, kept=(first,), expected=replace(intended.expected, seconds=slow))
    found = audit(plan, tmp_path, HERE, intended=less).findings
    assert [cell.status for cell in found.cells] == ["done"] + ["left out"] * len(others)
    assert len(found.left_out) == len(others)
    assert all("min more than the budget" in line for line in found.left_out)


def test_when_the_time_is_over_what_still_runs_is_stopped(tmp_path):
    plan = plan_of(audit={"budget_minutes": 0.0001})
    intended = plan_cells(plan, tmp_path)
    found = audit(plan, tmp_path, HERE, intended=replace(intended, kept=intended.cells)).findings
    late = [cell for cell in found.cells if cell.status != "done"]
    assert len(late) >= len(found.cells) - 1  # the first may have been done before anybody looked at the clock
    assert all(cell.status == "left out" and "budget was spent" in (cell.reason or "") for cell in late)


SCRIPT = """
from pathlib import Path
from fluoroscope.audit import audit
from fluoroscope.cells import engine_of
from tests.audit.conftest import plan_of
if __name__ == "__main__":
    audit(plan_of(audit={changes!r}), Path({out!r}), engine_of({engine!r}))
"""


def started(out: Path, engine: str, **changes: object) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", SCRIPT.format(out=str(out), engine=engine, changes=changes)])


@pytest.mark.slow
def test_a_kill_changes_no_finding(tmp_path, attacked_here):
    """Killed in the middle, with `kill -9`; then the same again."""
    small = {"threats": ["curious-server"], "inference": ["metrics"], "compare": []}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    audit(plan_of(audit=small), whole, HERE)
    process = started(killed, "local:1", **small)
    try:
        deadline = time.monotonic() + 120
        while not (finished := list((killed / "cells").glob("*.json"))) and process.poll() is None:
            assert time.monotonic() < deadline, "it took too long"
            time.sleep(0.01)
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL, "it was still running"
    assert not (killed / "findings.json").exists()
    assert 1 <= len(finished) < len(list((whole / "cells").glob("*.json"))), "too late to show anything"
    before = {path: path.stat().st_mtime_ns for path in finished}
    audit(plan_of(audit=small), killed, HERE)
    assert {path: path.stat().st_mtime_ns for path in finished} == before, "what was finished is not run again"
    assert (killed / "findings.json").read_bytes() == (whole / "findings.json").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local:2", "ray"])
def test_every_engine_finds_the_same(done, tmp_path, engine):
    """In a process of its own: Ray warns freely, and warnings are errors here."""
    assert started(tmp_path, engine).wait(timeout=240) == 0
    assert findings(tmp_path) == findings(done[1])

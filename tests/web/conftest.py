"""A folder of runs of every kind, and a client that knows the token."""

import json
import os
import time
import warnings

import pytest

from fluoroscope.progress_file import progress_in
from fluoroscope.report.audit_report import write_report
from fluoroscope.site.entry import Entry, Judged, exchange_id
from fluoroscope.site.ledger import Ledger
from tests.report.audits import make_audit

pytest.importorskip("fastapi")
with warnings.catch_warnings():  # it would rather have a successor of httpx, which is not locked
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from fluoroscope.web.access import Guarded, answered_hosts
from fluoroscope.web.app import Watched, make_app
from fluoroscope.web.guarded_files import Root

TOKEN = "a-token-for-tests"
BASE = "http://127.0.0.1:8765"


def make_federation(folder, rounds=4, done=2, finished=False):
    """As a federation's store lays it out."""
    for number in range(done + 1):
        this = folder / "rounds" / f"{number:04d}"
        this.mkdir(parents=True)
        clients = {name: {"loss": 1 / (number + 1)} for name in ("north", "south")} if number else {}
        scored = {name: {"accuracy": 0.5 + number / 10} for name in clients}
        manifest = {"round": number, "clients": clients, "validation": scored, "files": {}}
        (this / "manifest.json").write_text(json.dumps(manifest))
        (this / "timing.json").write_text(json.dumps({"seconds": 10.0}))
    (folder / "run.json").write_text(json.dumps({"plan": {"rounds": rounds}, "clients": ["north", "south"]}))
    if finished:
        (folder / "result.json").write_text("{}")
        (folder / "index.html").write_text("<!doctype html><title>A federation</title>")
    return folder


def long_ago(folder):
    """As if nothing had happened in it for a day."""
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (time.time() - 86400,) * 2)


def make_ledger(path, lines=3):
    ledger = Ledger(path, lambda: "2026-01-02T03:04:05Z")
    for number in range(1, lines + 1):
        ledger.append(
            Entry(
                exchange=exchange_id("run", number, "out", str(number)),
                run="trial",
                round=number,
                direction="out",
                decision="withhold" if number == 2 else "send",
                reasons=("label-counts could not be judged.",) if number == 2 else (),
                meter=(Judged(leak="reconstruction", value=number / 8, judged=True, attack="span", p_value=0.1),),
            )
        )
    return path


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Read by the tests, and not changed."""
    runs = tmp_path_factory.mktemp("live") / "runs"
    runs.mkdir()
    for name, stopped in (("before", 0.2), ("after", 1.0)):
        (runs / name).mkdir()
        write_report(make_audit(runs / name, stopped=stopped))
    (runs / "patients").mkdir()
    make_audit(runs / "patients", synthetic=False)
    (runs / "broken").mkdir()
    (runs / "broken/findings.json").write_text('{"format": 2,')
    make_federation(runs / "deep" / "federation", finished=True)
    make_federation(runs / "halted")
    long_ago(runs / "halted")
    study = runs / "studies/p4/table-2"
    with progress_in(study, "study"):
        pass
    (study / "findings.json").write_text('{"study": "p4/table-2", "rows": []}')
    (study / "table.md").write_text("| attack | <script>alert(1)</script> |\n")
    (runs / "studies/cells").mkdir()
    calibration = runs / "deep/federation/calibration"
    (calibration / "tried").mkdir(parents=True)
    point = {"noise_multiplier": 0.5, "leak": 0.01, "safe": True, "rehearsed": {}}
    content = {"target": "holds", "leaks_without": True, "defences": [{"defence": "dp-sgd", "tried": [point]}]}
    (calibration / "calibration.json").write_text(json.dumps(content))
    make_ledger(runs / "site/ledger.jsonl")
    return runs


def client_of(folder, **settings):
    watched = Watched(Root.of(folder), **settings)
    app = Guarded(make_app(watched), TOKEN, answered_hosts("127.0.0.1", 8765), "fluoroscope-8765")
    return TestClient(app, base_url=BASE, headers={"Authorization": f"Bearer {TOKEN}"}, follow_redirects=False)


@pytest.fixture
def client(folder):
    with client_of(folder) as made:
        yield made


@pytest.fixture
def ids(client):
    """The address of every run, by its name."""
    return {run["name"]: run["id"] for run in client.get("/api/runs").json()["runs"]}

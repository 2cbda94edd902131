"""What the pages say, and what no address leads to."""

import json
import re
import shutil

import pytest

from fluoroscope.findings import read_findings
from fluoroscope.report.comparison import compare
from fluoroscope.runs.lock import run_lock
from tests.web.conftest import client_of, long_ago, make_federation, make_ledger


def texts(html):
    """The words of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_the_list_names_every_run_with_its_state(client):
    found = {run["name"]: (run["kind"], run["state"]) for run in client.get("/api/runs").json()["runs"]}
    assert found == {
        "after": ("audit", "finished"),
        "before": ("audit", "finished"),
        "patients": ("audit", "finished"),
        "broken": ("audit", "broken"),
        "deep/federation": ("federation", "finished"),
        "deep/federation/calibration": ("calibration", "finished"),
        "halted": ("federation", "stopped"),
        "studies/p4/table-2": ("study", "finished"),
    }
    page = texts(client.get("/").text)
    assert "findings.json cannot be read as JSON" in page
    assert "It was stopped after round 2 of 4. The same command goes on where it was." in page
    assert "curious-server: leaks" in page
    assert "site/ledger.jsonl" in page


def test_the_page_of_an_audit_has_its_verdicts_and_files(client, folder, ids):
    html = client.get(f"/runs/{ids['before']}").text
    for verdict in read_findings(folder / "before").findings.verdicts:
        assert verdict.level in texts(html)
    assert set(re.findall(r'href="/files/\w+/([\w.]+)"', html)) == {"report.html", "findings.json", "timing.json"}


def test_the_page_of_a_federation_has_its_rounds(client, ids):
    html = texts(client.get(f"/runs/{ids['deep/federation']}").text)
    assert "Validation accuracy from round 1 (0.60) to 2 (0.70)" in html
    assert re.search(r"2 2 0\.333 0\.700 10\.0", html)


def test_the_pages_of_a_study_and_a_calibration(client, ids):
    study = client.get(f"/runs/{ids['studies/p4/table-2']}").text
    assert "&lt;script&gt;alert(1)" in study
    assert "<script>alert" not in study
    assert "noise_multiplier" in client.get(f"/runs/{ids['deep/federation/calibration']}").text


def test_reports_stand_in_a_sandbox_of_their_own(client, folder, ids):
    answer = client.get(f"/files/{ids['before']}/report.html")
    assert answer.content == (folder / "before/report.html").read_bytes()
    policy = answer.headers["content-security-policy"]
    assert "sandbox allow-scripts;" in policy
    assert "allow-same-origin" not in policy
    assert "connect-src" not in policy, "default-src 'none' holds for it"


def test_two_audits_side_by_side(client, folder, ids):
    html = client.get(f"/compare?before={ids['before']}&after={ids['after']}").text
    found = compare(read_findings(folder / "before"), read_findings(folder / "after"))
    changed = [change for change in found.changes if change.difference]
    assert f"{len(found.changes)} scores are in both; {len(changed)} changed" in texts(html)
    assert html.count('<tr><th scope="row"') == len(changed) > 3
    assert html.count('src="data:image/png;base64,') >= 6
    assert "blurred" not in texts(html), "phantoms are nobody's images"


def test_images_of_patients_are_blurred_unless_asked_for(client, folder, ids):
    address = f"/compare?before={ids['patients']}&after={ids['patients']}"
    blurred = client.get(address).text
    assert "Images of patients are blurred" in blurred
    with client_of(folder, show_images=True) as asked:
        clear = asked.get(address).text
    assert "blurred" not in clear
    pictures = [set(re.findall(r"base64,([\w+/=]+)", html)) for html in (blurred, clear)]
    assert all(pictures)
    assert not pictures[0] & pictures[1]


def test_the_ledger_of_the_door(client, tmp_path):
    (address,) = re.findall(r'href="(/ledgers/\w+)"', client.get("/").text)
    page = texts(client.get(address).text)
    assert "whole 3 decisions: 2 sent, 0 with a warning, 1 withheld." in page
    assert "label-counts could not be judged." in page
    path = make_ledger(tmp_path / "elsewhere.jsonl")
    path.write_text(path.read_text().replace('"decision":"withhold"', '"decision":"send"'))
    (tmp_path / "runs").mkdir()
    with client_of(tmp_path / "runs", ledgers=(path,)) as other:
        (address,) = re.findall(r'href="(/ledgers/\w+)"', other.get("/").text)
        assert "broken 1 decisions before the break" in texts(other.get(address).text)
        path.unlink()
        assert other.get(address).status_code == 404


HOSTILE = ["%2e%2e", "..%2f..%2fetc%2fpasswd", "%00", "before", ".", "0" * 16, "a" * 5000, "%ff%fe", "<script>"]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("kind", ["runs", "ledgers", "files", "events/run", "events/ledger", "events/nonsense"])
def test_unknown_names_lead_nowhere(client, kind, name):
    for path in (f"/{kind}/{name}", f"/{kind}/{name}/report.html", f"/{kind}/{name}/..%2f..%2f..%2fetc%2fpasswd"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "<script>" not in answer.text.replace('<script src="/static/live.js"', "")
        assert "root:" not in answer.text


@pytest.mark.parametrize(
    "file",
    ["cells", "gallery", "../after/report.html", "..%2fafter%2freport.html", "plan.toml", "%2fetc%2fpasswd",
     "report.html%00", "report.html/", "calibration.json", "REPORT.HTML", "x" * 9000],
)  # fmt: skip
def test_only_listed_files_of_a_run_are_opened(client, ids, file):
    assert client.get(f"/files/{ids['before']}/{file}").status_code in (307, 404)


@pytest.mark.parametrize(
    "query", ["?before=..&after=..", "?before=x", "?before=" + "9" * 9000, "?before=%00&after=%ff"]
)
def test_comparing_what_is_not_there(client, query):
    assert client.get(f"/compare{query}").status_code == 404


def test_a_link_out_of_the_folder_is_not_followed(tmp_path, folder):
    secret = tmp_path / "secret"
    secret.mkdir()
    for name in ("findings.json", "report.html", "ledger.jsonl"):
        (secret / name).write_text("SECRET")
    runs = tmp_path / "runs"
    shutil.copytree(folder / "before", runs / "mine")
    (runs / "linked").symlink_to(secret)
    (runs / "mine/report.html").unlink()
    (runs / "mine/report.html").symlink_to(secret / "report.html")
    (runs / "theirs").mkdir()
    for name in ("findings.json", "progress.json", "report.html", "ledger.jsonl"):
        (runs / "theirs" / name).symlink_to(secret / name)
    inside = runs / "inside"
    inside.mkdir()
    shutil.copy(folder / "before/findings.json", inside)
    (inside / "report.html").symlink_to(runs / "mine/findings.json")
    with client_of(runs) as client:
        known = {run["name"]: run for run in client.get("/api/runs").json()["runs"]}
        assert set(known) == {"mine", "theirs", "inside"}
        assert known["theirs"]["state"] == "broken"
        assert "ledger.jsonl" not in client.get("/").text
        for run in known.values():
            for path in (f"/runs/{run['id']}", *(f"/files/{run['id']}/{n}" for n in ("report.html", "findings.json"))):
                assert "SECRET" not in client.get(path).text
        assert client.get(f"/files/{known['mine']['id']}/report.html").status_code == 404
        assert client.get(f"/files/{known['inside']['id']}/report.html").status_code == 200, "it stays in the folder"


def test_a_picture_outside_of_the_folder_is_not_shown(tmp_path, folder):
    for name in ("one", "two"):
        shutil.copytree(folder / "before", tmp_path / "runs" / name)
        path = tmp_path / "runs" / name / "findings.json"
        content = json.loads(path.read_text())
        for cell in content["cells"]:
            for shown in cell.get("gallery", []):
                shown["reconstruction"] = "../../outside.png"
        path.write_text(json.dumps(content))
    shutil.copy(next((folder / "before/gallery").glob("*.png")), tmp_path / "outside.png")
    with client_of(tmp_path / "runs") as client:
        one, two = (run["id"] for run in client.get("/api/runs").json()["runs"])
        assert "no picture" in client.get(f"/compare?before={one}&after={two}").text


@pytest.mark.parametrize(
    "content", ["", "[]", '{"cells": 3}', '{"format": 2}', "\x00", "[" * 100_000, '{"format": 99}']
)
def test_one_broken_run_does_not_hide_the_others(tmp_path, content):
    make_federation(tmp_path / "good", finished=True)
    for kind, name in (("audit", "findings.json"), ("federation", "run.json"), ("study", "progress.json")):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / name).write_text(content)
    (tmp_path / "calibration/tried").mkdir(parents=True)
    (tmp_path / "calibration/calibration.json").write_text(content)
    with client_of(tmp_path) as client:
        states = {run["name"]: run["state"] for run in client.get("/api/runs").json()["runs"]}
        assert states.pop("good") == "finished"
        assert states.keys() == {"audit", "federation", "study", "calibration"}
        assert {states[name] for name in ("audit", "federation", "study")} == {"broken"}
        for run in client.get("/api/runs").json()["runs"]:
            assert client.get(f"/runs/{run['id']}").status_code == 200


def test_a_folder_without_runs_says_what_to_do(tmp_path):
    with client_of(tmp_path) as client:
        assert "No run is here yet." in client.get("/").text


def test_names_cannot_become_markup(tmp_path):
    make_federation(tmp_path / '"><img src=x onerror=alert(1)>', finished=True)
    with client_of(tmp_path) as client:
        (run,) = client.get("/api/runs").json()["runs"]
        for path in ("/", f"/runs/{run['id']}"):
            assert "<img" not in client.get(path).text


def test_a_federation_is_running_while_a_process_holds_it(tmp_path):
    """By the lock that `federate` takes beside the folder, however long a round takes."""
    make_federation(tmp_path / "long")
    long_ago(tmp_path / "long")
    with client_of(tmp_path) as client:
        with run_lock(tmp_path / "long"):
            assert client.get("/api/runs").json()["runs"][0]["state"] == "running"
        assert client.get("/api/runs").json()["runs"][0]["state"] == "stopped"
        with run_lock(tmp_path / "long"):
            pass  # nobody was kept from it by our looking


def test_a_federation_that_nobody_works_on_is_stopped(tmp_path):
    make_federation(tmp_path / "now")
    make_federation(tmp_path / "then")
    long_ago(tmp_path / "then")
    with client_of(tmp_path) as client:
        found = {run["name"]: run for run in client.get("/api/runs").json()["runs"]}
    assert (found["now"]["state"], found["then"]["state"]) == ("running", "stopped")
    assert found["now"]["fraction"] == 0.5
    assert 10 <= found["now"]["seconds_left"] <= 20

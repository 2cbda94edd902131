"""MLflow's REST API, as a small server on this machine plays it."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.findings import read_findings
from fluoroscope.report.exports.brief import brief
from fluoroscope.report.mlflow_tracking import log_audit


@contextmanager
def tracking_server(known=(), artifacts="mlflow-artifacts:/7/r1/artifacts", refuse=None):
    """Its address, and the requests that it got: (method, path, body, authorization)."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *words):
            pass

        def _answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append((self.command, self.path, body, self.headers.get("Authorization")))
            code, content = self._content()
            self.send_response(code)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def _content(self):
            if refuse and refuse in self.path:
                return 500, {"error_code": "INTERNAL_ERROR", "message": "the disk is full"}
            if "get-by-name" in self.path:
                name = self.path.partition("=")[2]
                if name in known:
                    return 200, {"experiment": {"experiment_id": "3"}}
                return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST"}
            if self.path.endswith("experiments/create"):
                return 200, {"experiment_id": "7"}
            if self.path.endswith("runs/create"):
                return 200, {"run": {"info": {"run_id": "r1", "artifact_uri": artifacts}}}
            return 200, {}

        do_GET = do_POST = do_PUT = _answer

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def told(audit, monkeypatch):
    for name in ("TOKEN", "USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    return brief(read_findings(audit))


def bodies(asked, path):
    return [json.loads(body) for method, at, body, _ in asked if at.endswith(path)]


def test_scores_levels_and_files_are_logged(told):
    with tracking_server() as (address, asked):
        logged = log_audit(f"{address}/", told, {"report.html": b"<p>", "findings.json": b"{}"})
    assert (logged.experiment, logged.run, logged.files) == ("7", "r1", ("report.html", "findings.json"))
    paths = [(method, path.partition("?")[0]) for method, path, _, _ in asked]
    assert paths == [
        ("GET", "/api/2.0/mlflow/experiments/get-by-name"),
        ("POST", "/api/2.0/mlflow/experiments/create"),
        ("POST", "/api/2.0/mlflow/runs/create"),
        ("POST", "/api/2.0/mlflow/runs/log-batch"),
        ("PUT", "/api/2.0/mlflow-artifacts/artifacts/7/r1/artifacts/report.html"),
        ("PUT", "/api/2.0/mlflow-artifacts/artifacts/7/r1/artifacts/findings.json"),
        ("POST", "/api/2.0/mlflow/runs/update"),
    ]
    (batch,) = bodies(asked, "log-batch")
    scores = {each["key"]: each["value"] for each in batch["metrics"]}
    cells = [
        c for c in told.audit.findings.cells if (c.kind, c.defence) == ("reconstruction", "none") and "leak" in c.scores
    ]
    assert scores["0 none/reconstruction/leak"] == max(cell.scores["leak"].value for cell in cells)
    assert scores["3 dp-sgd __8/federation/epsilon"] == 8.0
    assert len(scores) == logged.metrics > 15
    (made,) = bodies(asked, "runs/create")
    tags = {each["key"]: each["value"] for each in made["tags"]}
    assert {tags[f"fluoroscope.{risk.id}"] for risk in told.judged} == {"holds"}
    assert bodies(asked, "runs/update")[0]["status"] == "FINISHED"
    assert next(body for _, path, body, _ in asked if path.endswith("report.html")) == b"<p>"


def test_an_experiment_that_is_there_is_used(told):
    with tracking_server(known=("fluoroscope",)) as (address, asked):
        assert log_audit(address, told, {}).experiment == "3"
    assert not bodies(asked, "experiments/create")


def test_files_that_the_server_does_not_take_are_said(told):
    with tracking_server(artifacts="s3://bucket/7") as (address, asked):
        logged = log_audit(address, told, {"report.html": b""})
    assert not logged.files
    assert "--serve-artifacts" in logged.remark
    assert not [path for method, path, _, _ in asked if method == "PUT"]


@pytest.mark.parametrize(
    ("variables", "header"),
    [
        ({}, None),
        ({"TOKEN": "abc"}, "Bearer abc"),
        ({"USERNAME": "me", "PASSWORD": "pw"}, "Basic bWU6cHc="),
    ],
)
def test_credentials_are_those_of_mlflows_own_client(told, monkeypatch, variables, header):
    for name, value in variables.items():
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", value)
    with tracking_server() as (address, asked):
        log_audit(address, told, {})
    assert {sent for _, _, _, sent in asked} == {header}


@pytest.mark.parametrize("uri", ["file:./mlruns", "sqlite:///x.db", "mlruns", "ftp://host", "http://"])
def test_an_address_that_is_no_server(told, uri):
    with pytest.raises(Misconfigured, match="takes the address of a tracking server"):
        log_audit(uri, told, {})


def test_a_password_in_the_address(told):
    with pytest.raises(Misconfigured, match="without a password") as problem:
        log_audit("http://me:secret@localhost:5000", told, {})
    assert "secret" not in str(problem.value)


def test_a_server_that_is_not_there(told):
    with tracking_server() as (address, _):
        pass
    with pytest.raises(BadInput, match="no MLflow tracking server answers at"):
        log_audit(address, told, {})


def test_a_server_that_refuses(told):
    with (
        tracking_server(refuse="log-batch") as (address, _),
        pytest.raises(BadInput, match=r"refused /api/2.0/mlflow/runs/log-batch \(500: .*the disk is full"),
    ):
        log_audit(address, told, {})

"""An audit as a run of an MLflow tracking server, through its REST API: no package of MLflow's is needed."""

import base64
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fluoroscope import strict_json
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.findings.metrics import LEAKS, metric_of
from fluoroscope.report.exports.brief import Brief

EXPERIMENT = "fluoroscope"
_API = "/api/2.0/mlflow/"
_FILES = "/api/2.0/mlflow-artifacts/artifacts/"
_BATCH = 500
"""Metrics per request; the server takes 1000."""
_SECONDS = 30


@dataclass(frozen=True)
class Logged:
    """The run that was made."""

    experiment: str
    run: str
    metrics: int
    files: tuple[str, ...]
    remark: str | None = None
    """Why files were not sent."""


def log_audit(uri: str, brief: Brief, files: Mapping[str, bytes], name: str = EXPERIMENT) -> Logged:
    """Log scores as metrics, levels as tags, and files, as a new run.

    Args:
        uri: the server's address, such as http://localhost:5000. `MLFLOW_TRACKING_TOKEN`, or `MLFLOW_TRACKING_USERNAME`
            and `MLFLOW_TRACKING_PASSWORD`, are sent along as MLflow's own client does.
        brief: the audit.
        files: content by file name.
        name: of the experiment; it is made where there is none.

    Raises:
        Misconfigured: the address is none of a server.
        BadInput: the server does not answer, or refuses.
    """
    server = _Server.at(uri)
    experiment = server.experiment(name)
    now = int(time.time() * 1000)
    tags = [{"key": "mlflow.runName", "value": f"audit: {brief.setting}"}, *_tags(brief)]
    made = server.post("runs/create", {"experiment_id": experiment, "start_time": now, "tags": tags})
    info = _at(made, "run", "info")
    run, place = str(_at(info, "run_id")), str(_at(info, "artifact_uri"))
    scores = [{"key": key, "value": value, "timestamp": now, "step": 0} for key, value in _scores(brief).items()]
    for start in range(0, len(scores), _BATCH):
        server.post("runs/log-batch", {"run_id": run, "metrics": scores[start : start + _BATCH]})
    sent, remark = server.send(place, files)
    server.post("runs/update", {"run_id": run, "status": "FINISHED", "end_time": int(time.time() * 1000)})
    return Logged(experiment, run, len(scores), sent, remark)


@dataclass(frozen=True)
class _Server:
    address: str
    headers: Mapping[str, str]

    @classmethod
    def at(cls, uri: str) -> "_Server":
        parts = urllib.parse.urlsplit(uri)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Misconfigured(
                f"--mlflow takes the address of a tracking server, such as http://localhost:5000, not {uri!r}; `mlflow "
                "server` starts one on a folder or a database."
            )
        if parts.username or parts.password:
            raise Misconfigured(
                "--mlflow takes an address without a password in it: set MLFLOW_TRACKING_USERNAME and _PASSWORD."
            )
        return cls(uri.rstrip("/"), _credentials())

    def experiment(self, name: str) -> str:
        """The id of the experiment, which is made where there is none."""
        query = urllib.parse.urlencode({"experiment_name": name})
        found = self._ask("GET", f"{_API}experiments/get-by-name?{query}", None, missing_is_none=True)
        if found is None:
            return str(_at(self.post("experiments/create", {"name": name}), "experiment_id"))
        return str(_at(found, "experiment", "experiment_id"))

    def post(self, path: str, content: Mapping[str, Any]) -> Any:  # noqa: ANN401  # JSON is any of its own types
        return self._ask("POST", _API + path, json.dumps(content).encode(), "application/json")

    def send(self, place: str, files: Mapping[str, bytes]) -> tuple[tuple[str, ...], str | None]:
        """The names of the files that were sent, and why others were not."""
        parts = urllib.parse.urlsplit(place)
        if parts.scheme != "mlflow-artifacts":
            return (), (
                f"the server keeps files by itself at {parts.scheme or 'a folder'}: only scores were logged. `mlflow "
                "server --serve-artifacts` takes files."
            )
        folder = urllib.parse.quote(parts.path.strip("/"))
        for name, content in files.items():
            self._ask("PUT", f"{_FILES}{folder}/{urllib.parse.quote(name)}", content, "application/octet-stream")
        return tuple(files), None

    def _ask(
        self, method: str, path: str, body: bytes | None, kind: str | None = None, missing_is_none: bool = False
    ) -> Any:  # noqa: ANN401  # JSON is any of its own types
        headers = {**self.headers, **({"Content-Type": kind} if kind else {})}
        request = urllib.request.Request(self.address + path, data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                return strict_json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as problem:
            with problem:
                said = problem.read(2000).decode("utf-8", "replace")
            if missing_is_none and problem.code == 404:
                return None
            raise BadInput(
                f"the MLflow server at {self.address} refused {path.partition('?')[0]} ({problem.code}: "
                f"{' '.join(said.split())[:200]}). The run may be there in part."
            ) from problem
        except (OSError, ValueError) as problem:  # no connection, a timeout, an answer that is no JSON
            raise BadInput(
                f"no MLflow tracking server answers at {self.address} ({problem}). Look at the address, or start one "
                "with `mlflow server`."
            ) from problem


def _credentials() -> dict[str, str]:
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    user, password = (os.environ.get(f"MLFLOW_TRACKING_{each}") for each in ("USERNAME", "PASSWORD"))
    if user and password:
        return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
    return {"Authorization": f"Bearer {token}"} if token else {}


def _at(answer: Any, *keys: str) -> Any:  # noqa: ANN401  # JSON is any of its own types
    for key in keys:
        if not isinstance(answer, dict) or key not in answer:
            raise BadInput(f"the answer of the MLflow server has no {key!r}: is there another program at this address?")
        answer = answer[key]
    return answer


def _tags(brief: Brief) -> Iterator[dict[str, str]]:
    yield {"key": "fluoroscope.version", "value": brief.version}
    yield {"key": "fluoroscope.setting", "value": brief.setting}
    for risk in brief.judged:
        yield {"key": f"fluoroscope.{risk.id}", "value": risk.level}


def _scores(brief: Brief) -> dict[str, float]:
    """By setting, kind and metric: of several cells the leakiest, as the page's first table has it."""
    asked = [*((kind, name) for kind, names in LEAKS.items() for name in names)]
    asked += [("federation", "accuracy"), ("federation", "epsilon")]
    found: dict[str, float] = {}
    for number, defence in enumerate(brief.audit.findings.defences):
        for kind, name in asked:
            values = [
                (metric_of(cell.kind, name, score).leak(score.value), score.value)
                for cell in brief.done(kind, defence.label)
                if (score := cell.scores.get(name)) is not None and score.value is not None
            ]
            if values:
                found[f"{number} {_key(defence.label)}/{kind}/{name}"] = max(values)[1]
    return found


def _key(label: str) -> str:
    """With the characters that a metric's name may have; the number before it keeps two labels apart."""
    return re.sub(r"[^A-Za-z0-9_. -]", "_", label)[:100]

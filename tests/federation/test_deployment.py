"""The same apps on Flower's deployment engine: a superlink and two supernodes on loopback."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from fluoroscope.federation.run import federate
from fluoroscope.federation.store import RecordStore

from .conftest import digests, plan_of

APP = Path(__file__).parents[2] / "examples/flower-app"
BIN = Path(sys.executable).parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def healthy(port: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return True
        except OSError:
            time.sleep(0.5)
    return False


@pytest.mark.first
@pytest.mark.timeout(600)
def test_superlink_and_supernodes_give_the_same_records(tmp_path):
    plan = plan_of(rounds=1, partition={"clients": 2})
    (tmp_path / "plan.toml").write_text(TOML)
    port, home = free_port(), tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(f'[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n')
    environment = os.environ | {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    environment["PATH"] = f"{BIN}:{environment['PATH']}"
    with ExitStack() as stack:

        def start(*command: str) -> None:
            log = stack.enter_context((tmp_path / f"{len(list(tmp_path.iterdir()))}.log").open("w"))
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True
            )
            stack.callback(process.wait)
            stack.callback(os.killpg, process.pid, signal.SIGKILL)  # with the processes that it started

        link = [str(BIN / "flower-superlink"), "--insecure", "--host", "127.0.0.1", "--port", str(port)]
        start(*link, "--disable-runtime-dependency-installation")
        assert healthy(port, 90)
        for i in range(2):
            node = [str(BIN / "flower-supernode"), "--insecure", "--superlink", f"127.0.0.1:{port}"]
            start(*node, "--port", str(free_port()), "--node-config", f"partition-id={i} num-partitions=2")
        settings = f'plan="{tmp_path / "plan.toml"}" out="{tmp_path / "records"}"'
        run = [str(BIN / "flwr"), "run", str(APP), "here", "--run-config", settings, "--stream"]
        done = subprocess.run(run, env=environment, cwd=tmp_path, timeout=400, capture_output=True, text=True)
        assert (tmp_path / "records/result.json").exists(), done.stdout + done.stderr
    deployed, here = RecordStore(tmp_path / "records"), federate(plan, tmp_path / "here")
    for name, entry in here.manifest(1).clients.items():
        assert deployed.manifest(1).clients[name].loss == pytest.approx(entry.loss, rel=1e-4)
    assert digests(here.folder).keys() == digests(deployed.folder).keys()


TOML = """
rounds = 1
[data]
source = "phantom/chest"
size = 28
images = 160
[partition]
name = "iid"
clients = 2
auxiliary = 0.2
[model]
name = "small-cnn"
[training]
lr = 0.05
batch_size = 8
"""

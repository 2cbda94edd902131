"""The command as people use it: started, watched by many, asked for what it must not give, and ended."""

import asyncio
import json
import signal
import socket
import time
import urllib.request
from pathlib import Path

import pytest

from fluoroscope.cli.app import program
from fluoroscope.errors import BadInput
from tests.web.serving import Running, serving

WATCHERS = 200


@pytest.fixture(scope="module")
def server(folder):
    with serving(folder) as made:
        yield made


def ask(server, path, *, host=None, token=None):
    """The whole answer to a request that is sent as it is written."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        head = f"GET {path} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{server.port}'}\r\nConnection: close\r\n"
        connection.sendall(f"{head}Authorization: Bearer {token or server.token}\r\n\r\n".encode("latin-1"))
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def runs_of(server):
    request = urllib.request.Request(f"{server.base}/api/runs", headers={"Authorization": f"Bearer {server.token}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return {run["name"]: run for run in json.load(answer)["runs"]}


def test_as_it_is_typed_no_address_leads_out(server):
    known = runs_of(server)["before"]["id"]
    for path in (
        "/../../../../etc/passwd",
        "/runs/../../../etc/passwd",
        f"/files/{known}/../../../../etc/passwd",
        f"/files/{known}/..%2f..%2f..%2fetc%2fpasswd",
        "/static/../app.py",
        "/static/..%2fapp.py",
        "//etc/passwd",
        "/" + "a" * 100_000,
    ):
        answer = ask(server, path)
        assert answer.split(" ", 2)[1] in ("400", "404", "414", "431"), path
        assert "root:" not in answer
        assert "FastAPI" not in answer
    assert ask(server, "/", host="evil.example").split(" ", 2)[1] == "421"
    assert ask(server, "/", token="x").split(" ", 2)[1] == "401"
    assert server.process.poll() is None
    assert ask(server, "/").startswith("HTTP/1.1 200")


def test_many_watch_a_run_that_is_killed(tmp_path):
    run = Running(tmp_path / "hour")

    async def watch(server, name, begun, ended):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = f"GET /events/run/{name} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        writer.write(f"{head}Authorization: Bearer {server.token}\r\n\r\n".encode())
        async for line in reader:
            if b'data-state=\\"running\\"' in line:
                begun.append(name)
            if b'data-state=\\"stopped\\"' in line:
                ended.append(time.monotonic())
                break
        writer.close()

    async def everybody(server):
        name = runs_of(server)["hour"]["id"]
        begun, ended = [], []
        tasks = [asyncio.create_task(watch(server, name, begun, ended)) for _ in range(WATCHERS)]
        while len(begun) < WATCHERS:
            await asyncio.sleep(0.02)
        run.kill()
        killed = time.monotonic()
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        return max(ended) - killed

    with serving(tmp_path) as server:
        assert asyncio.run(everybody(server)) < 10
        assert runs_of(server)["hour"]["state"] == "stopped"


def test_ctrl_c_ends_it_though_somebody_watches(server):
    """And it has loaded nothing heavy, and told its token to nobody but the one who started it."""
    assert "libtorch" not in Path(f"/proc/{server.process.pid}/maps").read_text()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as watching:
        head = f"GET /events/runs HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        watching.sendall(f"{head}Authorization: Bearer {server.token}\r\n\r\n".encode())
        assert watching.recv(20).startswith(b"HTTP/1.1 200")
        server.process.send_signal(signal.SIGINT)
        out, errors = server.process.communicate(timeout=20)
    assert (server.process.returncode, errors) == (0, "")
    assert server.token not in out


def test_a_port_that_is_taken_and_a_folder_that_is_not_there(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, words in (
            ([str(tmp_path), "--port", port], "choose another --port"),
            ([str(tmp_path / "nowhere")], "is no folder"),
            ([str(tmp_path), "--ledger", "nowhere.jsonl"], "there is no ledger"),
            ([str(tmp_path), "--host", "203.0.113.7"], "cannot listen at 203.0.113.7"),
        ):
            with pytest.raises(BadInput, match=words):
                program()(["serve", *arguments], standalone_mode=False)
